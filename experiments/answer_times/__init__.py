"""Whether times of answers tell two neighbouring backgrounds apart."""
