"""The compiler cache that machines share: served by a socket to builds without a network and without passwords."""
