"""What an attacker gets, plain and protected side by side."""
