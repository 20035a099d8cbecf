/* How a kernel reports an error, as Python raises it: one of those that it meets, with the line and the element. */

enum { NO_PROBLEM, NOT_AN_ELLIPSE, NOT_FINITE };

#define FAIL(problem, kind, element) record_problem(problem, kind, __LINE__, (ulong)(element))

static inline void record_problem(volatile __global int *problem, int kind, int line, ulong element)
{
    if (atomic_cmpxchg(&problem[0], NO_PROBLEM, kind) == NO_PROBLEM) {
        problem[1] = line;
        problem[2] = (int)(element & 0x7fffffff);
        problem[3] = (int)(element >> 31);
    }
}
