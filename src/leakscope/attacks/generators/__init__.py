"""Images as the output of an untrained network with a fixed random input: its weights are what is optimised."""
