"""First hours of real users: pages of the documentation, run as they are typed."""
