"""Look an operator up by name and run it, with its gradient."""

import firelu
import numpy

x = numpy.linspace(-2, 2, 5, dtype=numpy.float32)
y = firelu.run_operator("LeakyRelu", x, alpha=0.2)
print("operators:", ", ".join(firelu.operators()))
print("x        :", x)
print("y        :", y)
print("dy/dx    :", firelu.leaky_relu_gradient(y, numpy.ones_like(y), 0.2))
