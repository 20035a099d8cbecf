/* The loop's body, for C and for OpenCL C: include <math.h> before it in C. */

/* Solve E - e sin(E) = M for an ellipse (0 <= e < 1). Newton's method from pi never overshoots, because the function
   is convex up to there. */
static inline double eccentric_anomaly(double mean, double eccentricity)
{
    const double whole = 6.283185307179586 * floor(mean / 6.283185307179586 + 0.5);
    const double rest = fabs(mean - whole);
    double anomaly = 3.141592653589793, step = 1.0;
    int n;
    for (n = 0; n < 100 && fabs(step) > 1e-15; ++n) {
        step = (anomaly - eccentricity * sin(anomaly) - rest) / (1.0 - eccentricity * cos(anomaly));
        anomaly -= step;
    }
    return whole + (mean < whole ? -anomaly : anomaly);
}
