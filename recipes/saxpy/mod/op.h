// Yours to change: what is done with each pair of numbers, in every back end.
#define OP(a, x, y) ((a) * (x) + (y))
