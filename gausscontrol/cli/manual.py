"""What --help says of each command beside its options: what it is for, examples, exit codes.

Lines have at most 80 columns, examples are command lines that the tests read, and what is named to
read more exists.
"""

from __future__ import annotations

__all__ = ["ABOUT", "MANUAL"]

DESCRIPTION = """\
Treat a Transformer layer acting on Gaussian tokens as a control system: where
do their mean mu and covariance Sigma settle, how fast, and from how far?

  mu'    = (A + V) mu + V Sigma B mu + b
  Sigma' = A Sigma + Sigma A^T + V Sigma B Sigma + Sigma B^T Sigma V^T

with the feed-forward part x -> A x + b, value matrix V and key-query matrix B,
summed over heads, and the depth of the layer as time t. With x the unit of a
token and t that of depth, mu has unit [x], Sigma [x^2], A and V [1/t], B
[1/x^2], b [x/t]."""

EPILOG = """\
a first run:
  Write a layer to a file, from MATLAB or Octave with
    A = eye(2); B = A; V = -A/2; save('layer.mat', 'A', 'B', 'V', '-v7')
  or from Python with
    python -c "import numpy as n; A=n.eye(2); n.savez('l.npz',A=A,B=A,V=-A/2)"
  and ask what it does:
    gausscontrol analyze l.npz

examples:
  gausscontrol analyze layer.mat --plots out
  gausscontrol simulate layer.mat --depth 12 --output run.csv
  gausscontrol design layer.mat --target 2 --output designed.npz
  gausscontrol steer start.npz goal.npz --layers 12 --output stack.npz

files:
  A model file (.mat, .npz, .json) holds A, B, V (d x d; several heads d x d x h
  in .mat, h x d x d elsewhere) and optionally b, k, dt, name; or the weights
  W_Q, W_K, W_V, W_O; or a stack of layers. With dt > 0 it is a residual layer
  of that depth, otherwise depth is continuous. What design and steer write,
  analyze and simulate read.

exit codes:
  0    done
  1    --require is not met, there is no such design, the goal is out of reach
  2    bad input; one line on standard error says what to do
  130  interrupted (Ctrl-C); one line says which files were finished

read more:
  gausscontrol COMMAND --help, for the options of a command, with examples
  docs/tutorial.rst to begin, docs/guide/commandline.rst for this at length;
  the pages docs/ are in the source distribution
  python -c "import gausscontrol; help(gausscontrol.load_model)" for model files"""

ANALYZE = """\
Find where the layer in FILE settles, how fast, and from how far.

FILE is .mat, .npz or .json and holds A, B, V (d x d; several heads d x d x h in
.mat, h x d x d elsewhere) and optionally b, k, dt, name; or a stack of layers,
of which each is looked at by itself before a trajectory passes through all."""

ANALYZE_EPILOG = """\
examples:
  gausscontrol analyze layer.mat
  gausscontrol analyze layer.mat --plots out
  gausscontrol analyze layer.mat --quick
  gausscontrol analyze layer.mat --json > layer.json
  gausscontrol analyze layer.mat --require "globally stable"

regimes, of which the report names the first that is certified, and the others:
  globally stable      every covariance Sigma > 0 tends to the equilibrium; the
                       scope beside it says whether every mean does too
  collapse             every covariance tends to zero
  semiglobally stable  every covariance in a stated set tends to the equilibrium
                       (of a residual layer, dt > 0, where nothing is global)
  locally stable       every covariance near the equilibrium tends to it
  blow-up              all covariances beyond a stated threshold escape to
                       infinity at a finite depth
  bounded              no covariance escapes

Global stability meets --require of the two other kinds of stability, semiglobal
that of local, and global stability and collapse meet "bounded". A stack meets
what all its layers meet. What is only observed along a trajectory is called so
and meets none.

The cost of the full analysis grows steeply with d; --quick certifies less, in a
fraction of the time, and is where to begin from about d = 20.

Rates and abscissae (the largest real part of a pole; stable below zero) are per
unit depth [1/t], covariances [x^2].

exit codes:
  0    done (without --require: whatever is found)
  1    the layer is not certified to be what --require asks for
  2    bad input; one line on standard error says what to do
  130  interrupted (Ctrl-C); one line says which files were finished

read more:
  docs/guide/commandline.rst, docs/guide/certificates.rst
  python -c "import gausscontrol; help(gausscontrol.classify)" """.rstrip()

SIMULATE = """\
Compute mean and covariance along the depth of the layer or stack in FILE, in
the formats that analyze reads. Where the covariance escapes to infinity at a
finite depth, the run ends just before, and the report says at which depth."""

SIMULATE_EPILOG = """\
examples:
  gausscontrol simulate layer.mat --depth 12
  gausscontrol simulate layer.mat --depth 12 --initial 0.1 --output run.csv
  gausscontrol simulate stack.npz --initial start.npz --plots out

files:
  A start file (.mat, .npz, .json) holds covariance (d x d) [x^2] and optionally
  mean (d) [x], zero by default. In Python
    numpy.savez("start.npz", covariance=covariance, mean=mean)
  An output file holds t (N), mean (d x N), covariance (d x d x N), and
  blow_up_time after an escape; a .csv has one row for each depth, with the
  lower triangle of the covariance.

exit codes:
  0    done, with or without an escape
  2    bad input; one line on standard error says what to do
  130  interrupted (Ctrl-C); one line says which files were finished

read more:
  docs/guide/commandline.rst, docs/guide/responses.rst
  python -c "import gausscontrol; help(gausscontrol.moment_response)" """.rstrip()

DESIGN = """\
Design parameters that make every Gaussian with Sigma_0 > 0 tend to a target,
and certify that they do. Matrices of the layer in FILE are kept unless they are
free; b is always chosen, since it puts the mean at the target."""

DESIGN_EPILOG = """\
examples:
  gausscontrol design layer.mat --target 2 --output designed.npz
  gausscontrol design layer.mat --target target.json --free AV --decay-rate 0.5
  gausscontrol design layer.mat --mean 1 0 --covariance 2 1 --norm-bound V=5
  gausscontrol design layer.mat --target 1 --free VB --heads 2 --plots out

target:
  Give --target, or --covariance, one of which is needed; --mean goes with
  either and is zero by default. A target file (.mat, .npz, .json) holds
  covariance (d x d) [x^2] and optionally mean (d) [x]. In Python
    numpy.savez("target.npz", covariance=covariance, mean=mean)

rates and norms:
  Without --decay-rate the rate is as large as the norm bounds allow; with it,
  the norms are as small as the rate allows. tr A > 0 is necessary unless A is
  free. Rates and the norms of A and V are per unit depth [1/t], that of B
  [1/x^2].

exit codes:
  0    done: designed and certified, and written if --output says where
  1    there is no such design; one line on standard error says why
  2    bad input, or a solver fails; one line on standard error says what to do
  130  interrupted (Ctrl-C); one line says which files were finished

read more:
  docs/guide/commandline.rst, docs/guide/design.rst
  python -c "import gausscontrol; help(gausscontrol.design)" """.rstrip()

STEER = """\
Find layers that turn the Gaussian in START into that in GOAL, exactly.

Each file (.mat, .npz, .json) holds covariance (d x d) [x^2] and optionally mean
(d) [x], zero by default. The path between them is the one of least energy; it
exists if and only if both covariances have the same rank."""

STEER_EPILOG = """\
examples:
  gausscontrol steer start.npz goal.npz --layers 12 --output stack.npz
  gausscontrol steer start.npz goal.npz --actuators attention --model layer.mat
  gausscontrol steer start.npz goal.npz --depth 4 --kind hold --plots out

The output is a stack of layers; this takes the start through it to the goal:
  gausscontrol simulate stack.npz --initial start.npz

files:
  A start or goal is written in Python with
    numpy.savez("start.npz", covariance=covariance, mean=mean)

exit codes:
  0    done
  1    the goal is out of reach: no parameters change a rank
  2    bad input; one line on standard error says what to do
  130  interrupted (Ctrl-C); one line says which files were finished

read more:
  docs/guide/commandline.rst, docs/guide/steering.rst
  python -c "import gausscontrol; help(gausscontrol.steer)" """.rstrip()

# Of the whole, and of each command: what stands above its options, and below.
ABOUT = (DESCRIPTION, EPILOG)
MANUAL = {
    "analyze": (ANALYZE, ANALYZE_EPILOG),
    "simulate": (SIMULATE, SIMULATE_EPILOG),
    "design": (DESIGN, DESIGN_EPILOG),
    "steer": (STEER, STEER_EPILOG),
}
