"""The documents beside decision pages: AI Act, data protection, audit controls.

Every question names the place in the law that it comes from. Answers are generated from log and
models; where nothing here can know the answer, the line is for people to state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from voile.app.evidence.facts import KEY_KINDS, Attack, LogFacts, Opened
from voile.app.evidence.lines import (
    EvidenceDocument,
    EvidenceLine,
    Section,
    Statements,
    missing,
    on_record,
    present,
    to_file,
    to_record,
)
from voile.app.evidence.models import ModelFacts
from voile.app.evidence.promises import promise_in_words, protected_by
from voile.core.explanation_checks import counted
from voile.core.guarantee import ProtectedUnit, Relation
from voile.records.audit_log import (
    AssessmentRecord,
    BudgetOpenedRecord,
    BudgetRenewedRecord,
    CheckpointAcceptedRecord,
    EventsAssessmentRecord,
    KeyRotationRecord,
    PostProcessingRecord,
    RefusalRecord,
    ReleaseRecord,
)

_ANSWERS = (ReleaseRecord.kind, PostProcessingRecord.kind)
_NO_ANSWER = "Nothing was answered yet: voile explain."
_NO_ATTACK = "Nothing was attacked yet: voile assess."
_NO_MODEL = "No folder of voile train or voile federate was found; name it in voile.toml."


@dataclass(frozen=True)
class EvidenceSource:
    """What documents are made from.

    Args:
        cards: for each model that has one, the file of its card.
        signed: for each model that was signed, the file of its signature.
        witnesses: how many must cosign, by the signing policy; None without one.
    """

    facts: LogFacts
    statements: Statements
    models: Sequence[ModelFacts] = ()
    cards: dict[str, str] = field(default_factory=dict)
    signed: dict[str, str] = field(default_factory=dict)
    witnesses: int | None = None

    @property
    def known(self) -> list[ModelFacts]:
        """Models that this log paid for."""
        return [each for each in self.models if each.records]


# --- AI Act ---------------------------------------------------------------------------------------


def technical_documentation(source: EvidenceSource) -> EvidenceDocument:
    """AI Act, Annex IV, Articles 12 and 13."""
    sections = (
        Section("Annex IV, 1: general description", tuple(_general(source))),
        Section("Annex IV, 2: elements and development", tuple(_development(source))),
        Section("Annex IV, 3 to 9: control, risks, changes", tuple(_control(source))),
        Section("Article 12: record-keeping", tuple(_record_keeping(source))),
        Section("Article 13: information for deployers", tuple(_transparency(source))),
    )
    about = "An index for the technical documentation of a high-risk system, from log and models."
    return EvidenceDocument("technical", "AI Act: technical documentation", about, sections)


def _general(source: EvidenceSource) -> Iterator[EvidenceLine]:
    state = source.statements.line
    yield state("annex-iv.1a", "Intended purpose, provider and version (1(a))")
    yield state("annex-iv.1b", "Interaction with other hardware, software and systems (1(b))")
    yield on_record(
        "annex-iv.1c",
        "Versions of the software (1(c))",
        f"voile {_versions(source.facts.attacks)}, as assessments recorded it.",
        [each.number for each in source.facts.attacks][-1:],
        f"An assessment records the version of voile. {_NO_ATTACK}",
    )
    yield state("annex-iv.1d", "How the system is put on the market or into service (1(d))")
    yield state("annex-iv.1e", "Hardware it runs on (1(e))")
    yield state("annex-iv.1g", "User interface for the deployer (1(g))")
    yield state("annex-iv.1h", "Instructions for use (1(h))")


def _versions(attacks: Iterable[Attack]) -> str:
    found = {
        each.record.software: None
        for each in attacks
        if isinstance(each.record, EventsAssessmentRecord)
    }
    return ", ".join(found) or "of an earlier version"


def _development(source: EvidenceSource) -> Iterator[EvidenceLine]:
    state, made = source.statements.line, source.known
    answers = source.facts.count(*_ANSWERS)
    yield _steps(source.models)
    yield on_record(
        "annex-iv.2b",
        "Design: logic, assumptions, what it optimises for (2(b))",
        f"What was computed for people: {_subjects(source.facts)}.",
        [each.number for each in source.facts.answers[:1]],
        _NO_ANSWER,
    )
    yield state("annex-iv.2b.choices", "Design choices and their rationale (2(b))")
    yield state("annex-iv.2c", "Architecture and computing resources (2(c))")
    yield on_record(
        "annex-iv.2d",
        "Data: which sets, how large (2(d))",
        "; ".join(_data(each) for each in made) or _accounts_said(source.facts),
        [each.number for each in source.facts.accounts.values()],
        "No account was opened for a data set: voile budget open.",
    )
    yield state("annex-iv.2d.provenance", "Data: provenance, labelling, cleaning (2(d))")
    yield state("annex-iv.2e", "Human oversight (2(e), Article 14)")
    yield on_record(
        "annex-iv.2e.outputs",
        "Measures that help deployers interpret outputs (2(e))",
        f"{counted(answers, 'explanation')} {'is' if answers == 1 else 'are'} on record.",
        source.facts.ends(*_ANSWERS),
        _NO_ANSWER,
    )
    yield state("annex-iv.2f", "Changes that were determined beforehand (2(f))")
    yield from (_quality(each, source) for each in source.models)
    yield state("annex-iv.2g", "Validation and testing: data, measures, test logs (2(g))")
    yield _security(source, "annex-iv.2h", "Cybersecurity measures (2(h))")


def _refusals(facts: LogFacts) -> str:
    return counted(facts.count(RefusalRecord.kind), "refusal")


def _steps(models: Sequence[ModelFacts]) -> EvidenceLine:
    made = [each for each in models if each.records or each.rounds]
    elsewhere = ", ".join(each.name for each in models)
    return on_record(
        "annex-iv.2a",
        "Methods and steps of development (2(a))",
        "; ".join(f"{each.name}: {each.made_by}, {_training(each)}" for each in made),
        [number for each in made for number in each.records or each.rounds],
        f"Other logs hold the records of {elsewhere}: collect evidence there."
        if models
        else _NO_MODEL,
    )


def _training(model: ModelFacts) -> str:
    return ", ".join(f"{name} {value}" for name, value in model.training.items())


def _subjects(facts: LogFacts) -> str:
    return ", ".join({each.record.subject.partition(", model ")[0]: None for each in facts.answers})


def _data(model: ModelFacts) -> str:
    labels = ", ".join(each.protected.dataset for each in model.guarantees)
    return f"{model.name}: {model.rows} rows of {labels}"


def _accounts_said(facts: LogFacts) -> str:
    return "; ".join(f"{name}: {each.record.dataset}" for name, each in facts.accounts.items())


def _quality(model: ModelFacts, source: EvidenceSource) -> EvidenceLine:
    key, asked = f"annex-iv.2g.{model.name}", f"Accuracy of {model.name} (2(g))"
    if not model.figures or not model.records:
        why = "No figure was charged or measured." if model.records else "Another log paid for it."
        return missing(key, asked, why)
    card = [to_file(source.cards[model.name])] if model.name in source.cards else []
    found = "; ".join(
        f"{each['name']} {each['figure']:.3f} ({each['measured_on']})" for each in model.figures
    )
    return present(key, asked, found, to_record(model.records[-1]), *card)


def _security(source: EvidenceSource, key: str, asked: str) -> EvidenceLine:
    facts, signed = source.facts, ", ".join(source.signed)
    if not facts.signed:
        return missing(key, asked, "No checkpoint was signed: voile audit checkpoint.")
    models = f"; signed models: {signed}" if signed else ""
    found = (
        f"The log is a Merkle tree of {counted(facts.size, 'record')}; the last checkpoint signs "
        f"{facts.signed} of them{models}."
    )
    files = [to_file(name) for name in source.signed.values()]
    return present(key, asked, found, to_record(facts.signed - 1), *files)


def _control(source: EvidenceSource) -> Iterator[EvidenceLine]:
    state, facts = source.statements.line, source.facts
    yield state("annex-iv.3", "Monitoring, functioning and control; limits (3)")
    yield from (_alarms(each) for each in source.models)
    yield state("annex-iv.4", "Why the performance measures are appropriate (4)")
    yield state("annex-iv.5", "Risk management system (5, Article 9)")
    changes = (
        BudgetRenewedRecord.kind,
        KeyRotationRecord.kind,
        CheckpointAcceptedRecord.kind,
    )
    yield on_record(
        "annex-iv.6",
        "Relevant changes over the life cycle (6)",
        f"Renewals of budgets, changes of keys and accepted checkpoints: {facts.count(*changes)}.",
        facts.ends(*changes),
        "The log records none.",
    )
    yield state("annex-iv.6.model", "Changes of the model and its use (6)")
    yield state("annex-iv.7", "Harmonised standards that were applied (7)")
    yield state("annex-iv.8", "EU declaration of conformity (8)")
    yield state("annex-iv.9", "Post-market monitoring (9, Article 72)")


def _alarms(model: ModelFacts) -> EvidenceLine:
    key, asked = f"annex-iv.3.{model.name}", f"Known limits of {model.name} (3)"
    if not model.records:
        return missing(key, asked, "Another log paid for it: collect evidence there.")
    found = " ".join(model.alarms) or "Its figures raised no alarm."
    return present(key, asked, found, to_record(model.records[-1]))


def _record_keeping(source: EvidenceSource) -> Iterator[EvidenceLine]:
    facts = source.facts
    kinds = ", ".join(f"{kind} ({use.times})" for kind, use in sorted(facts.kinds.items()))
    whole = (0, facts.size - 1) if facts.size > 1 else (0,) if facts.size else ()
    yield on_record(
        "article-12.1",
        "Events are recorded automatically (12(1))",
        f"{counted(facts.size, 'record')}: {kinds}.",
        whole,
        "The log is empty.",
    )
    yield on_record(
        "article-12.2a",
        "Situations of risk can be identified (12(2)(a))",
        f"{_refusals(facts)}, {counted(len(facts.attacks), 'assessment')}.",
        facts.ends(RefusalRecord.kind, EventsAssessmentRecord.kind),
        f"No refusal and no assessment is on record. {_NO_ATTACK}",
    )
    yield on_record(
        "article-12.2b",
        "Post-market monitoring is facilitated (12(2)(b))",
        f"{counted(facts.count(*_ANSWERS), 'answer')}, each with time, model and commitment.",
        facts.ends(*_ANSWERS),
        _NO_ANSWER,
    )
    yield _security(source, "article-12.kept", "Records cannot be changed unnoticed")
    yield source.statements.line("article-12.retention", "How long records are kept (Article 19)")


def _transparency(source: EvidenceSource) -> Iterator[EvidenceLine]:
    state, facts = source.statements.line, source.facts
    yield state("article-13.3a", "Identity and contact of the provider (13(3)(a))")
    yield state("article-13.3b.i", "Intended purpose (13(3)(b)(i))")
    yield from (_card(each, source) for each in source.models)
    yield state("article-13.3b.iii", "Circumstances that may lead to risks (13(3)(b)(iii))")
    yield on_record(
        "article-13.3b.iv",
        "Means to explain the output (13(3)(b)(iv) and (vii))",
        f"{_subjects(facts)}.",
        [each.number for each in facts.answers[:1]],
        _NO_ANSWER,
    )
    yield state("article-13.3b.v", "Performance for specific groups (13(3)(b)(v))")
    yield state("article-13.3d", "Human oversight measures (13(3)(d))")
    yield state("article-13.3e", "Resources, lifetime and maintenance (13(3)(e))")
    yield on_record(
        "article-13.3f",
        "How logs are collected, stored and interpreted (13(3)(f))",
        f"In the log {facts.origin!r}; voile audit show reads it, voile audit export hands it on.",
        (0,) if facts.size else (),
        "The log is empty.",
    )


def _card(model: ModelFacts, source: EvidenceSource) -> EvidenceLine:
    key = f"article-13.3b.ii.{model.name}"
    asked = f"Accuracy and input data of {model.name} (13(3)(b)(ii) and (vi))"
    card = to_file(source.cards[model.name])
    if not model.records:
        return missing(key, asked, f"{card.text} says it; another log holds the record.")
    return present(key, asked, "Stands in the model card.", to_record(model.records[-1]), card)


# --- data protection ------------------------------------------------------------------------------


def impact_annex(source: EvidenceSource) -> EvidenceDocument:
    """An annex to a data-protection impact assessment (GDPR 35(7))."""
    facts = source.facts
    accounts = [
        Section(f"Account {name}", tuple(_account(name, opened, source)))
        for name, opened in facts.accounts.items()
    ]
    none = missing("dpia.accounts", "What is protected", "No account is open: voile budget open.")
    sections = (
        Section("Processing (GDPR, Article 35(7)(a) to (c))", tuple(_processing(source))),
        *(accounts or [Section("Accounts", (none,))]),
        Section("Attacks that were tried", tuple(_attacks(source))),
        Section("Measures (GDPR, Article 35(7)(d))", tuple(_measures(source))),
    )
    about = (
        "What is protected, how far, against whom, and what was tried against it: an annex to a "
        "data-protection impact assessment."
    )
    return EvidenceDocument("data-protection", "Data protection annex", about, sections)


def _processing(source: EvidenceSource) -> Iterator[EvidenceLine]:
    state = source.statements.line
    yield state("dpia.description", "Description of the processing and its purposes (a)")
    yield state("dpia.necessity", "Necessity and proportionality (b)")
    yield state("dpia.risks", "Risks to the rights and freedoms of people (c)")
    yield state("dpia.controller", "Controller, and data-protection officer")


def _account(name: str, opened: Opened, source: EvidenceSource) -> Iterator[EvidenceLine]:
    record, link = opened.record, to_record(opened.number)
    protected = protected_by(record)
    yield present(f"dpia.{name}.unit", "Unit: what one record is", _unit(record), link)
    relation = Relation(record.relation)
    yield present(
        f"dpia.{name}.relation",
        "Relation: what is compared",
        f"{relation.word}: {_RELATIONS[relation]}",
        link,
    )
    yield present(
        f"dpia.{name}.promise",
        "ε and δ, in words",
        f"{promise_in_words(record)} (ε = {record.epsilon:g}, δ = {record.delta:g})",
        link,
    )
    yield present(
        f"dpia.{name}.who",
        "Who could learn what",
        _WHO.get(protected.unit, _WHO_OTHERS),
        link,
    )
    used = [each for each in source.facts.answers if _pays(each.record, name)]
    yield on_record(
        f"dpia.{name}.used",
        "What was released from it, newest first",
        ", ".join({each.record.subject.partition(", model ")[0]: None for each in used}),
        [each.number for each in used[:3]],
        "Nothing among the newest answers.",
    )


def _pays(record: object, name: str) -> bool:
    return isinstance(record, ReleaseRecord) and record.account == name


def _unit(record: BudgetOpenedRecord) -> str:
    return f"each {record.unit} of {record.dataset}"


_RELATIONS = {
    Relation.BLANK_ONE: "the data with one record, and with that record left blank",
    Relation.REPLACE_ONE: "the data with one record, and with any other in its place",
    Relation.ADD_OR_REMOVE_ONE: "the data with one record, and without it",
}
_WHO = {
    ProtectedUnit.EXPLAINED_ROW: "Whoever reads an answer learns about the explained record what "
    "the promise above allows, and no more; the custodian and the operator of the model see the "
    "record itself.",
    ProtectedUnit.CLIENT: "Whoever reads what was released, the server included, learns about one "
    "party what the promise above allows; the party itself sees its own records.",
}
_WHO_OTHERS = (
    "Whoever reads everything that was released learns about one of them what the promise above "
    "allows, and no more. The custodian, and whoever reads the database or the keys, sees the "
    "records themselves: no promise holds against them."
)


def _attacks(source: EvidenceSource) -> Iterator[EvidenceLine]:
    attacks = source.facts.attacks
    if not attacks:
        yield missing("dpia.attacks", "Which attacks were tried", _NO_ATTACK)
    for each in attacks:
        asked = f"Attack on {each.record.subject}"
        yield present(f"dpia.attack.{each.number}", asked, _outcome(each), to_record(each.number))


def _outcome(attack: Attack) -> str:
    record = attack.record
    if isinstance(record, AssessmentRecord):
        return (
            f"{record.attack}, {counted(record.trials, 'trial')}: {record.outcome}; measured ε "
            f"{record.measured_epsilon:.3g} of {record.claimed_epsilon:.3g} claimed"
        )
    verdict = "inconclusive" if record.verdict == "blind" else record.verdict
    return (
        f"{verdict}: {counted(record.runs, 'run')} of canary trials on invented records, by voile "
        f'{record.software}. "Not refuted" says that an attack which finds out half of the noise '
        "found nothing, and no more."
    )


def _measures(source: EvidenceSource) -> Iterator[EvidenceLine]:
    facts, state = source.facts, source.statements.line
    yield on_record(
        "dpia.filter",
        "Releases stop when a budget is used up",
        f"{counted(len(facts.accounts), 'account')}, {_refusals(facts)} on record.",
        [*(each.number for each in facts.accounts.values()), *facts.ends(RefusalRecord.kind)],
        "No account is open: voile budget open.",
    )
    yield _security(source, "dpia.log", "Every release is on record, and records cannot change")
    yield state("dpia.measures", "Further measures: access, contracts, training (d)")


# --- audit controls -------------------------------------------------------------------------------


def audit_controls(source: EvidenceSource) -> EvidenceDocument:
    """HIPAA, 45 CFR 164.308, 164.312 and 164.316, as far as log and keys go."""
    facts, state = source.facts, source.statements.line
    keys = facts.count(*KEY_KINDS)
    technical = (
        on_record(
            "hipaa.312b",
            "Audit controls: activity is recorded and examined (164.312(b))",
            f"{counted(facts.size, 'record')}, for voile audit show and voile budget history.",
            (0, facts.size - 1) if facts.size > 1 else (0,) if facts.size else (),
            "The log is empty.",
        ),
        _security(source, "hipaa.312c", "Integrity: no improper alteration (164.312(c)(1))"),
        _cosigned(source),
        on_record(
            "hipaa.312a",
            "Access control, unique identification (164.312(a))",
            f"Keys of the service that were issued or revoked, each with its duties: {keys}.",
            facts.ends(*KEY_KINDS),
            "No key of the service is on record: voile keys add, if it is used over HTTP.",
        ),
        on_record(
            "hipaa.312d",
            "Person or entity authentication (164.312(d))",
            "Callers over HTTP have keys of their own; the log names the keys.",
            facts.ends(*KEY_KINDS),
            "No key of the service is on record: voile keys add, if it is used over HTTP.",
        ),
        state("hipaa.312e", "Transmission security (164.312(e))"),
    )
    administrative = (
        state("hipaa.308a1", "Who reviews the records, and how often (164.308(a)(1)(ii)(D))"),
        state("hipaa.308a3", "Who is authorised, and by whom (164.308(a)(3))"),
        state("hipaa.308a6", "What happens after an incident (164.308(a)(6))"),
        state("hipaa.316b2", "How long documentation is kept (164.316(b)(2))"),
    )
    sections = (
        Section("Technical safeguards", technical),
        Section("Administrative safeguards", administrative),
    )
    about = "What log and keys show about the audit controls of the HIPAA security rule."
    return EvidenceDocument("audit-controls", "HIPAA: audit controls", about, sections)


def _cosigned(source: EvidenceSource) -> EvidenceLine:
    key, asked = "hipaa.312c2", "Mechanism to authenticate records (164.312(c)(2))"
    if not source.facts.signed or source.witnesses is None:
        return missing(key, asked, "No checkpoint was signed: voile audit checkpoint.")
    found = (
        "Receipts verify offline against a signed checkpoint; it needs "
        f"{counted(source.witnesses, 'cosignature')} of witnesses."
    )
    return present(key, asked, found, to_record(source.facts.signed - 1))
