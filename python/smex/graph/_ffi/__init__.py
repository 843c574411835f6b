"""Where programs written for DGL import its base class of errors from."""
