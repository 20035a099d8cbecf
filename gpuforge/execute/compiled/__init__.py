"""The compiler cache that machines share: builds reach it by a socket, without a network and without passwords."""
