"""The mean of the 3 x 3 pixels around each one; edges are repeated."""

import halide as hl

TILE = 16


@hl.generator(name="blur")
class Blur:
    source = hl.InputBuffer(hl.Float(32), 2)
    result = hl.OutputBuffer(hl.Float(32), 2)

    def generate(self):
        x, y, rows, xi, yi = (hl.Var(name) for name in ("x", "y", "rows", "xi", "yi"))
        around = hl.BoundaryConditions.repeat_edge(self.source)
        row = hl.Func("row")
        row[x, y] = around[x - 1, y] + around[x, y] + around[x + 1, y]
        result = self.result
        result[x, y] = (row[x, y - 1] + row[x, y] + row[x, y + 1]) / 9
        if self.target().has_gpu_feature():
            result.gpu_tile(x, y, xi, yi, TILE, TILE, hl.TailStrategy.GuardWithIf)
        else:
            result.split(y, rows, yi, 32, hl.TailStrategy.GuardWithIf).parallel(rows)
            result.vectorize(x, self.natural_vector_size(hl.Float(32)), hl.TailStrategy.GuardWithIf)


if __name__ == "__main__":
    hl.main()
