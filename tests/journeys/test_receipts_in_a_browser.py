"""The verifier in the browser says what the one in Python says, of every step of every receipt."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.faults.mutations import bytes_changed, words_changed
from tests.support.dashboards import PATIENCE, QUIET, find_browser, until
from tests.unit.records.audit_log.examples import (
    ANSWER,
    LOG_KEY,
    QUERY,
    WITNESS_KEYS,
    SmallLog,
    policy,
    release,
    signing_key,
)
from voile.records.audit_log import Policy, Receipt, RowTree, verify_receipt, verify_row_receipt
from voile.records.audit_log.row_receipt import HEADER
from voile.views.assets import offline_verifier

RECORDS: Final = 11
MUTATED: Final = 1000
CHECK: Final = """async ([texts, policy, handed]) => {
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const opened = Object.fromEntries(Object.entries(handed).map(([n, t]) => [n, bytes(t)]));
  const found = [];
  for (const text of texts) {
    const { verified, steps } = await voile.verify(bytes(text), policy, opened);
    found.push([verified, steps.map((step) => [step.number, step.name, step.outcome])]);
  }
  return found;
}"""
OLD: Final = Path("tests/unit/records/old-receipt.tlog-proof")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The offline file, from the disk, without a network."""
    found = find_browser()
    if found is None:
        pytest.skip("no browser")
    from playwright.sync_api import sync_playwright

    path = tmp_path_factory.mktemp("offline") / "check-receipt.html"
    path.write_text(offline_verifier(), encoding="utf-8")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=list(QUIET))
        context = browser.new_context(offline=True)
        opened = context.new_page()
        opened.set_default_timeout(PATIENCE)
        said: list[str] = []
        opened.on("console", lambda message: said.append(message.text))
        opened.on("pageerror", lambda error: said.append(str(error)))
        opened.goto(path.as_uri())
        yield opened
        assert said == []
        browser.close()


@pytest.fixture(scope="module")
def small() -> SmallLog:
    return SmallLog.of([release(number) for number in range(RECORDS)])


def in_browser(page: Any, receipts: Sequence[bytes], rules: Policy, **handed: bytes) -> list[Any]:
    texts = [base64.b64encode(each).decode() for each in receipts]
    opened = {name: base64.b64encode(content).decode() for name, content in handed.items()}
    found: list[Any] = page.evaluate(CHECK, [texts, str(rules), opened])
    return found


def in_python(receipts: Sequence[bytes], rules: Policy, **handed: bytes) -> list[Any]:
    found = []
    for each in receipts:
        if each.startswith(HEADER.encode()):
            report = verify_row_receipt(each, rules)
        else:
            report = verify_receipt(
                each, rules, query=handed.get("query"), answer=handed.get("answer")
            )
        steps = [[s.number, s.name, s.outcome.value] for s in report.steps]
        found.append([report.verified, steps])
    return found


def agree(page: Any, receipts: Sequence[bytes], rules: Policy, **handed: bytes) -> list[bool]:
    told, expected = (
        in_browser(page, receipts, rules, **handed),
        in_python(receipts, rules, **handed),
    )
    for receipt, one, other in zip(receipts, told, expected, strict=True):
        assert one == other, receipt
    return [each[0] for each in expected]


def sound(small: SmallLog) -> list[bytes]:
    return [bytes(small.receipt(number, RECORDS)) for number in range(RECORDS)]


def row_receipts(small: SmallLog) -> list[bytes]:
    record = Receipt.parse(sound(small)[0])
    tree = RowTree.from_rows([b"one", b"two", b"three"], bytes(32))
    return [bytes(tree.receipt(number, record)) for number in range(3)]


def test_they_agree_about_every_record(page: Any, small: SmallLog) -> None:
    for threshold in (0, 2, 3):
        assert all(agree(page, sound(small), policy(threshold)))
    assert all(agree(page, row_receipts(small), policy()))


def test_they_agree_about_other_rules(page: Any, small: SmallLog) -> None:
    stranger = signing_key("another")
    for rules in (
        policy(log_keys=(stranger,)),
        policy(log_keys=(stranger, LOG_KEY)),
        Policy("elsewhere", (signing_key("x", name="elsewhere").verifier,)),
        Policy(LOG_KEY.name, (LOG_KEY.verifier,), (WITNESS_KEYS[1].verifier,), 1),
    ):
        agree(page, sound(small)[:3], rules)


def test_they_agree_about_what_was_asked_and_answered(page: Any, small: SmallLog) -> None:
    receipts = sound(small)[:2]
    assert all(agree(page, receipts, policy(), query=QUERY, answer=ANSWER))
    assert not any(agree(page, receipts, policy(), query=ANSWER))
    assert not any(agree(page, receipts, policy(), answer=b" "))


def test_they_agree_about_an_old_receipt(page: Any) -> None:
    agree(page, [OLD.read_bytes()], policy())


def test_they_agree_about_mutated_receipts(page: Any, small: SmallLog) -> None:
    chance = random.Random(36)
    whole = [*sound(small), *row_receipts(small)]
    changed: list[bytes] = []
    while len(changed) < MUTATED:
        content = chance.choice(whole)
        mutate = bytes_changed if chance.random() < 0.6 else words_changed
        other = mutate(content, chance)
        if other != content:
            changed.append(other)
    verdicts = agree(page, changed, policy())
    assert verdicts.count(False) > 0.8 * MUTATED


def test_they_agree_about_records_that_are_spelled_otherwise(page: Any, small: SmallLog) -> None:
    """Canonical is one spelling: what JSON reads alike is not alike."""
    receipt = Receipt.parse(sound(small)[0])
    text = receipt.record.decode()
    spelled = [
        text.replace(":", ": ", 1),
        text.replace('"version":1', '"version":1.0'),
        text.replace('"version":1', '"version":1e0'),
        text.replace('"version":1', '"version":true'),
        text.replace('"version":1', '"version":9007199254740992'),
        text.replace('"version":1', '"version":-0'),
        text.replace('"row"', '"\\ud800"'),
        text.replace('"row"', '"\\u00e9"'),
        text.replace('"row"', '"é\u2028\u007f"'),
        text.replace('"row"', '["row"]'),
        text.replace('"row"', "null"),
        text.replace('"unit"', '"__proto__"'),
        text.replace('"unit"', '"Unit"'),
        text[:-1] + ',"zz":1}',
        text[:-1] + ',"account":"x"}',
        "\ufeff" + text,
        "{}",
        "[]",
        "1",
        "",
    ]
    receipts = [
        bytes(Receipt(each.encode("utf-8", "surrogatepass"), 0, receipt.path, receipt.checkpoint))
        for each in spelled
    ]
    assert not any(agree(page, receipts, policy()))


def test_people_see_which_step_failed(page: Any, small: SmallLog, tmp_path: Path) -> None:
    receipt, rules = tmp_path / "r.tlog-proof", tmp_path / "policy.toml"
    rules.write_text(str(policy()))
    content = sound(small)[0]
    for written, said in (
        (content, "No step failed"),
        (content.replace(b"\nindex 0", b"\nindex 1"), "does NOT hold"),
    ):
        receipt.write_bytes(written)
        page.set_input_files("#receipt", str(receipt))
        page.set_input_files("#policy", str(rules))
        page.click("button")
        until(page, "(said) => document.getElementById('result').textContent.includes(said)", said)
    assert "inclusion" in page.text_content("#result")
