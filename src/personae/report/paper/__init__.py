"""Published numbers and the paper's claims."""
