"""The demo: a LeNet trained on real handwritten digits, and the digits it is shown."""
