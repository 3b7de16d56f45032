# -- what there is to say -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Observation:
    """What one trajectory did: no verdict."""

    start: str
    depth: float
    outcome: str
    text: str
    response: MomentResponse | None


@dataclass
class _Findings:
    file: Path
    model: GaussianTransformer
    equilibria: list[Equilibrium]
    no_equilibrium: str | None = None
    analysis: EquilibriumAnalysis | None = None
    no_analysis: str | None = None
    certificate: Certificate | None = None
    refused: list[tuple[str, NotCertified]] = field(default_factory=list)
    observations: list[_Observation] = field(default_factory=list)
    plots: list[Path] = field(default_factory=list)
    plots_missing: dict[str, str] = field(default_factory=dict)

    @property
    def equilibrium(self) -> Equilibrium | None:
        return self.equilibria[0] if self.equilibria else None

    @property
    def title(self) -> str:
        return self.model.name or self.file.stem

    @property
    def regime(self) -> str:
        if self.certificate is None:
            return UNDECIDED
        return REGIMES[0] if isinstance(self.certificate, GlobalStability) else REGIMES[1]

    @property
    def rate(self) -> float | None:
        return self.certificate.rate if isinstance(self.certificate, GlobalStability) else None

    @property
    def optimal_rate(self) -> float:
        return 2 * float(np.trace(self.model.A)) / self.model.dim

    @property
    def shortfall(self) -> str:
        return self.no_equilibrium or _reason(self.refused[0][1])

    def satisfies(self, regime: str) -> bool:
        return self.regime in REGIMES[: REGIMES.index(regime) + 1]


def _investigate(file: Path, model: GaussianTransformer) -> _Findings:
    found = _Findings(file, model, find_equilibria(model))
    if found.equilibrium is None:
        found.no_equilibrium = _why_none(model)
    else:
        _certify(found, found.equilibrium)
        _analyse(found, found.equilibrium)
    _observe(found)
    return found


def _why_none(model: GaussianTransformer) -> str:
    try:
        find_equilibrium(model)
    except EquilibriumNotFound as error:
        return _reason(error)
    return "the search gave none"


def _certify(found: _Findings, equilibrium: Equilibrium) -> None:
    attempts = (certify_global_stability, certify_local_stability)
    for regime, certify in zip(REGIMES, attempts, strict=True):
        try:
            found.certificate = certify(found.model, equilibrium)
            return
        except NotCertified as error:
            found.refused.append((regime, error))


def _analyse(found: _Findings, equilibrium: Equilibrium) -> None:
    dim = found.model.dim
    states = dim + dim * (dim + 1) // 2
    if equilibrium.mean is None:
        found.no_analysis = (
            "the mean equation has no solution, so there is no point to linearise at"
        )
    elif states > LARGEST_ANALYSIS:
        found.no_analysis = f"the linearisation has {states} states, more than {LARGEST_ANALYSIS}"
    else:
        found.analysis = analyze(found.model, equilibrium)


# -- trajectories ---------------------------------------------------------------------------------


def _observe(found: _Findings) -> None:
    model, equilibrium = found.model, found.equilibrium
    speed = np.linalg.norm(model.A, 2) + np.linalg.norm(model.V.sum(axis=0), 2) or 1.0
    if equilibrium is None:
        gain = np.linalg.norm(model.attention(np.eye(model.dim)), 2)
        pull = np.linalg.norm(model.A, 2)
        scale = pull / gain if pull and gain else 1.0
        depth = DEPTHS_WITHOUT_EQUILIBRIUM / (pull or gain or 1.0)
        start = (np.zeros(model.dim), scale * np.eye(model.dim))
        where = f"mu = 0, Sigma = {scale:.3g} I"
        found.observations.append(_follow(found, where, start, depth))
        return
    slowest = max(equilibrium.covariance_abscissa, equilibrium.mean_abscissa)
    depth = min(TIME_CONSTANTS / abs(slowest) if slowest else np.inf, LONGEST / speed)
    Sigma = equilibrium.covariance
    centre = np.zeros(model.dim) if equilibrium.mean is None else equilibrium.mean
    # A round Gaussian of a quarter of the size, one standard deviation away in each coordinate.
    size = np.exp(np.log(np.linalg.eigvalsh(Sigma)).mean()) / 4
    start = (centre + np.sqrt(np.diag(Sigma)), size * np.eye(model.dim))
    where = f"mu = mu* + one standard deviation, Sigma = {size:.3g} I"
    found.observations.append(_follow(found, where, start, depth))
    if found.rate is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BlowUpWarning)  # the observation says it
            for factor in (0.01, 100):
                where = f"mu = mu*, Sigma = {factor:g} Sigma*"
                start = (centre, factor * Sigma)
                found.observations.append(_follow(found, where, start, depth, OBSERVED_RTOL))


def _follow(
    found: _Findings, where: str, start: tuple, depth: float, rtol: float = 1e-8
) -> _Observation:
    model = found.model
    depths = np.linspace(0, depth, POINTS + 1)
    if model.dt:
        stride = max(1, round(depth / (POINTS * model.dt)))
        layers = max(2, int(np.ceil(depth / (stride * model.dt))) + 1)
        depths = model.dt * stride * np.arange(layers)
    try:
        response = moment_response(model, depths, start, rtol=rtol)
    except IntegrationError as error:
        return _Observation(where, 0.0, "not integrated", _message(error), None)
    outcome, text = _outcome(response, model, found.equilibrium)
    return _Observation(where, float(response.t[-1]), outcome, text, response)


def _outcome(
    response: MomentResponse, model: GaussianTransformer, equilibrium: Equilibrium | None
) -> tuple[str, str]:
    end = f"at depth {response.t[-1]:.4g}"
    if response.blow_up_time is not None:
        error = f"estimated error {response.blow_up_error:.1g}"
        return "escapes", f"escapes to infinity at depth {response.blow_up_time:.6g} ({error})"
    first, last = response.covariance[:, :, 0], response.covariance[:, :, -1]
    if equilibrium is not None:
        near, far = (_distance(Sigma, equilibrium) for Sigma in (last, first))
        if near < far / 10:
            return "approaches", (
                f"approaches the equilibrium: the whitened distance of Sigma from it falls "
                f"from {far:.3g} to {near:.3g} {end}"
            )
    before, after = np.trace(first), np.trace(last)
    change = f"tr Sigma goes from {before:.4g} to {after:.4g} [x]^2 {end}"
    if after < DECAY * before:
        return "decays", f"decays: {change}"
    if after > GROWTH * before:
        return "grows", f"grows without escape so far: {change}"
    M = model.drift(last)
    motion = np.linalg.norm(M @ last + last @ M.T) / (np.linalg.norm(M) * np.linalg.norm(last))
    if motion > REST or model.dt:
        return "moves", f"still moves or was not at rest: {change}"
    low, high = np.linalg.eigvalsh(last)[[0, -1]]
    if low < SINGULAR * high:
        return "flattens", f"comes to rest at a covariance that is singular or nearly so: {change}"
    return (
        "settles",
        f"settles at a covariance with eigenvalues {low:.4g} to {high:.4g} [x]^2 {end}",
    )


def _distance(Sigma: np.ndarray, equilibrium: Equilibrium) -> float:
    values, vectors = np.linalg.eigh(equilibrium.covariance)
    R = vectors / np.sqrt(values)
    return float(np.linalg.norm(R.T @ (Sigma - equilibrium.covariance) @ R))


# -- pictures -------------------------------------------------------------------------------------


def _draw(found: _Findings, folder: Path) -> None:
    response, analysis = found.observations[0].response, found.analysis
    certificate = found.certificate if found.rate is not None else None
    common = {"equilibrium": found.equilibrium, "title": found.title}
    tasks = {
        "moments.png": (response, plots.moment_plot, common),
        "ellipses.png": (response, plots.ellipse_plot, common),
        "spectrum.png": (
            analysis,
            plots.spectrum_plot,
            {"certificate": certificate, "title": found.title},
        ),
    }
    for name, (what, plot, keywords) in tasks.items():
        path = folder / name
        if what is None:
            path.unlink(missing_ok=True)  # an earlier run's would be of another layer
            missing = found.no_analysis or found.no_equilibrium
            found.plots_missing[name] = missing if plot is plots.spectrum_plot else "no trajectory"
            continue
        plots.save_picture(path, lambda figure, p=plot, w=what, k=keywords: p(w, ax=figure, **k))
        found.plots.append(path)


