"""Experience: acting in environments on the device and on the host."""
