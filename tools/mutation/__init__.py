"""What the tests would not notice: small changes of the pure core, each tried against them."""
