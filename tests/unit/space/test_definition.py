from __future__ import annotations

import json
from pathlib import Path

from tests.unit.space.conftest import Load, completed
from tuner.space import definition_differences, load_study_file, study_definition

TEXT = """
parameters: {precision: [fp32, bf16], micro_batch_size: [4, 8]}
rules: ["micro_batch_size < 100"]
constraints: {peak_memory_gib: {max: 6}}
"""


def test_a_definition_is_plain_json_and_equal_to_itself(load: Load) -> None:
    definition = study_definition(load(TEXT))
    assert json.loads(json.dumps(definition)) == definition
    assert set(definition) == {"workload", "parameters", "rules", "baseline", "objectives", "constraints"}
    assert definition_differences(definition, definition) == []


def test_differences_are_lines_that_name_what_changed(load: Load) -> None:
    old = study_definition(load(f"{TEXT}workload: {{kind: toy, train_for: {{tokens: 300000}}}}\n"))
    new = study_definition(
        load(
            "parameters: {precision: [fp32], micro_batch_size: [4, 8], threads: 2}\n"
            "workload: {kind: toy, train_for: {tokens: 400000}}\n"
            "constraints: {peak_memory_gib: {max: 7}}\nobjectives: [tokens_per_s, accuracy]\n"
        )
    )
    assert definition_differences(old, new) == [
        "workload.train_for.tokens: was 300000, now 400000",
        'parameters.precision: was "choices": ["fp32", "bf16"], now "choices": ["fp32"]',
        "rule micro_batch_size < 100: was holds, now not there",
        "objectives: was tokens_per_s maximize, val_loss_nats minimize, now tokens_per_s "
        "maximize, accuracy maximize",
        "limit peak_memory_gib max: was 6.0, now 7.0",
        'parameters.threads: new, "value": 2',
        "baseline.threads: new, 2",
    ]


def test_budget_and_resources_are_no_part_of_it(load: Load) -> None:
    before = study_definition(load(TEXT))
    after = study_definition(
        load(f"{TEXT}budget: {{trials: 99}}\nresources: {{cpus: 1}}\nsearch: {{seed: 4}}\n", cpus=64)
    )
    assert definition_differences(before, after) == []


def test_one_and_true_are_different_and_the_order_of_parameters_is_not(load: Load) -> None:
    one, true = (
        study_definition(load(f"workload: {{kind: open}}\nparameters: {{x: [{v}, 2]}}\n"))
        for v in ("1", "true")
    )
    assert definition_differences(one, true)
    ab, ba = (
        study_definition(load(f"workload: {{kind: open}}\nparameters: {{{text}}}\n"))
        for text in ("a: 1, b: 2", "b: 2, a: 1")
    )
    assert definition_differences(ab, ba) == []


def test_a_folder_may_be_moved(tmp_path: Path) -> None:
    definitions = []
    for folder in ("here", "there"):
        path = tmp_path / folder / "space.yaml"
        path.parent.mkdir()
        path.write_text(completed("workload: {kind: toy, data: data.csv}\n"))
        study = load_study_file(path)
        assert study.workload["data"] == str(tmp_path / folder / "data.csv")
        definitions.append(study_definition(study))
    assert definition_differences(*definitions) == []
