"""Which tests hold which public case: id -> ``file::test`` (a class between where there is one), below ``tests/``.

A value that is one text instead says why the case has no test yet.
"""

from __future__ import annotations

_SPACE = "unit/space/test_cases.py::test_"
_LINE = "cases/test_space_file.py::test_"
_VALUES = "cases/test_metric_values.py::test_"
_MEASURE = "cases/test_measurement.py::test_"
_TRIALS = "cases/test_trials_resources.py::test_"
_RESUME = "cases/test_study_resume.py::test_"
_OUT = "cases/test_export_report.py::test_"
_JUDGED = "unit/test_result_cases.py::test_"
_MLFLOW = "unit/tracking/test_cases.py::test_"
_STUDY = "unit/study/"
_COMMAND = "unit/command/test_run.py::test_case_"

COVERAGE: dict[str, tuple[str, ...] | str] = {
    "wandb/wandb#1129": (
        f"{_SPACE}wandb_wandb_1129_a_number_with_an_exponent_is_a_number",
        f"{_LINE}wandb_wandb_1129_check_shows_which_choices_are_text_and_a_trial_gets_numbers",
        f"{_LINE}wandb_wandb_1129_a_knob_of_numbers_never_gets_text",
    ),
    "FCP-INDI/C-PAC#2204": (
        f"{_SPACE}fcp_indi_c_pac_2204_on_and_off_stay_words",
        "unit/cli/test_export.py::test_values_keep_their_type_through_yaml_and_json",
    ),
    "wandb/wandb#1323": (
        f"{_SPACE}wandb_wandb_1323_words_in_quotes_are_never_booleans",
        f"{_LINE}wandb_wandb_1323_what_a_trial_echoes_never_overwrites_what_it_was_given",
    ),
    "st7ma784/MLSlurmTemplate CreateWandBSweep.py": (
        f"{_SPACE}st7ma784_mlslurmtemplate_precision_lists_may_mix_types",
        f"{_LINE}st7ma784_mlslurmtemplate_mixed_types_survive_the_whole_line",
        "unit/cli/test_export_study.py::test_csv_keeps_the_types_of_parameters_apart_and_inactive_ones_empty",
    ),
    "optuna/optuna#5683": (
        f"{_SPACE}optuna_optuna_5683_choices_that_python_calls_equal_stay_apart",
        f"{_LINE}optuna_optuna_5683_choices_that_are_equal_in_python_are_each_measured",
        "contracts/sampler_suite.py::SamplerSuite::test_choices_that_python_takes_for_equal_stay_apart",
    ),
    "optuna/optuna#3129": (
        f"{_SPACE}optuna_optuna_3129_null_is_a_choice_and_leaves_the_default",
        f"{_LINE}optuna_optuna_3129_null_leaves_the_default_from_the_file_to_the_trial",
    ),
    "wandb/wandb#982": (
        f"{_SPACE}wandb_wandb_982_dotted_names_and_nested_maps_are_the_same",
        "unit/cli/test_export.py::test_dotted_names_become_nested_maps",
    ),
    "deepspeedai/DeepSpeed autotuning docs (arg_mappings)": (
        f"{_SPACE}deepspeedai_deepspeed_autotuning_names_are_stripped_and_unknown_ones_refused",
    ),
    "optuna/optuna#2225": (f"{_SPACE}optuna_optuna_2225_a_step_that_does_not_reach_the_maximum_is_said",),
    "kubeflow/katib#2446": (f"{_SPACE}kubeflow_katib_2446_log_from_zero_is_refused_with_the_fix",),
    "optuna/optuna#1329": (f"{_SPACE}optuna_optuna_1329_log_with_a_step_is_refused_with_the_powers",),
    "openshift-psap/auto-tuning-vllm study_config_local_exec.yaml": (
        f"{_SPACE}openshift_psap_auto_tuning_vllm_a_space_of_one_point_is_a_space",
        f"{_LINE}openshift_psap_auto_tuning_vllm_a_space_of_one_point_runs_once_and_says_so",
    ),
    "optuna/optuna#2021": (
        f"{_SPACE}optuna_optuna_2021_a_configuration_has_one_key_and_the_space_an_end",
        f"{_LINE}optuna_optuna_2021_two_by_two_choices_are_four_measurements",
        f"{_LINE}optuna_optuna_2021_a_known_failure_is_not_tried_again_by_a_later_run",
    ),
    "openshift-psap/auto-tuning-vllm#82": (
        f"{_SPACE}openshift_psap_auto_tuning_vllm_82_relations_between_parameters_are_rules",
        f"{_LINE}openshift_psap_auto_tuning_vllm_82_what_a_rule_rejects_is_counted_and_never_run",
    ),
    "vllm-project/vllm#4232": (
        f"{_SPACE}vllm_project_vllm_4232_degrees_are_checked_against_the_model_and_the_machine",
        f"{_LINE}vllm_project_vllm_4232_what_does_not_divide_costs_no_budget",
    ),
    "deepspeedai/DeepSpeed#6914": (
        f"{_SPACE}deepspeedai_deepspeed_6914_batch_sizes_that_contradict_are_said_with_the_numbers",
        f"{_LINE}deepspeedai_deepspeed_6914_check_says_batch_sizes_that_contradict_with_their_numbers",
        f"{_LINE}deepspeedai_deepspeed_6914_two_sizes_give_the_third_and_the_rest_is_rejected",
    ),
    "optuna/optuna#3132": (
        f"{_JUDGED}optuna_3132_nan_is_a_failure_with_a_reason_and_nothing_stays_running",
        f"{_VALUES}optuna_optuna_3132_a_trial_that_reports_nan_fails_with_its_reason_and_the_study_goes_on",
    ),
    "ray-project/ray optuna_search.py (missing metric)": (
        f"{_JUDGED}ray_missing_metric_fails_with_what_came_and_the_nearest_name",
        f"{_VALUES}ray_project_ray_missing_metric_the_first_trial_stops_the_study_and_names_the_nearest",
        f"{_COMMAND}ray_project_ray_optuna_search_py_missing_metric_lists_what_did_come",
    ),
    "ray-project/ray optuna_search.py (error after a report)": (
        f"{_JUDGED}ray_error_after_a_report_never_reaches_the_front",
        f"{_VALUES}ray_project_ray_error_after_a_report_the_exit_status_decides",
        f"{_COMMAND}ray_project_ray_optuna_search_py_error_after_a_report_the_exit_status_decides",
    ),
    "optuna/optuna#5374": (
        f"{_JUDGED}optuna_5374_infinity_is_no_value",
        f"{_VALUES}optuna_optuna_5374_infinity_never_reaches_the_study",
        f"{_VALUES}optuna_optuna_5374_no_step_or_no_time_is_no_throughput",
    ),
    "optuna/optuna#3746": (
        f"{_JUDGED}optuna_3746_a_nan_limit_is_not_met",
        f"{_VALUES}optuna_optuna_3746_a_limit_that_is_nan_is_broken_and_the_search_goes_on",
    ),
    "optuna/optuna#6242": (
        f"{_JUDGED}optuna_6242_nothing_feasible_shows_the_nearest_with_its_gap",
        f"{_VALUES}optuna_optuna_6242_nothing_feasible_ends_normally_with_the_nearest",
        "unit/cli/test_export.py::test_nothing_feasible_is_3_with_the_nearest_miss",
        "unit/cli/test_export.py::test_any_measured_trial_can_be_exported_with_a_warning",
    ),
    "vllm-project/vllm#55561": (
        f"{_JUDGED}vllm_55561_a_tie_on_one_axis_keeps_no_dominated_point_and_copies_share_a_mark",
    ),
    "vllm-project/vllm#56111": (
        f"{_OUT}vllm_project_vllm_56111_a_metric_says_whether_it_is_of_the_job_or_of_one_device",
        f"{_OUT}vllm_project_vllm_56111_the_devices_that_a_trial_held_are_recorded_with_it",
    ),
    "wandb/examples#601": (
        f"{_VALUES}wandb_examples_601_a_study_without_a_goal_is_refused",
        f"{_VALUES}wandb_examples_601_without_the_section_at_all_too",
        f"{_VALUES}wandb_examples_601_one_goal_has_a_best_and_no_front",
    ),
    "intel/neural-compressor#1617": (
        f"{_JUDGED}neural_compressor_1617_a_relative_limit_on_a_baseline_of_zero_asks_for_an_absolute_one",
        f"{_VALUES}intel_neural_compressor_1617_a_relative_limit_on_a_baseline_of_zero_stops_the_study",
        # the design holds: a baseline outside the limits is said and the study goes on
        f"{_STUDY}test_baseline.py::test_a_baseline_outside_the_limits_is_said_and_the_study_goes_on",
    ),
    "intel/neural-compressor#498": (
        f"{_JUDGED}neural_compressor_498_the_resulting_bound_can_be_shown",
        f"{_VALUES}intel_neural_compressor_498_absolute_and_relative_have_names_of_their_own",
        f"{_VALUES}intel_neural_compressor_498_a_percentage_written_as_a_fraction_is_refused_with_both_ways",
        f"{_VALUES}intel_neural_compressor_498_the_study_says_the_number_once_it_is_known",
    ),
    "openshift-psap/auto-tuning-vllm#111": (
        f"{_JUDGED}auto_tuning_vllm_111_the_baseline_is_trial_0_counted_and_the_measure_of_every_gain",
        f"{_VALUES}openshift_psap_auto_tuning_vllm_111_gains_over_the_baseline_are_in_report_and_mlflow",
    ),
    "pytorch/pytorch#93634": (
        f"{_MEASURE}pytorch_pytorch_93634_a_compilation_among_the_first_steps_is_not_counted",
        "unit/trials/test_report.py::test_a_recompilation_restarts_the_window_behind_it",
        "unit/trials/test_steady.py::test_a_slow_start_is_dropped_and_the_rest_kept",
        "engines/test_training.py::test_a_compiled_training_counts_its_graphs_and_its_products",
        f"{_STUDY}test_baseline.py::test_a_cold_run_is_thrown_away_and_the_repeats_count",
    ),
    "triton-inference-server/client#116": (
        f"{_MEASURE}triton_inference_server_client_116_a_throughput_of_zero_is_unstable_and_no_low_score",
        f"{_MEASURE}triton_inference_server_client_116_zero_is_a_value_of_other_metrics",
        f"{_MEASURE}triton_inference_server_client_116_own_rates_too_and_the_front_stays_clean",
        f"{_MEASURE}triton_inference_server_client_116_a_baseline_that_completed_nothing_stops_after_one_run",
        f"{_MEASURE}triton_inference_server_client_116_a_program_that_completed_nothing_fails_its_baseline",
        "unit/trials/test_report.py::test_no_step_left_to_time_is_unstable_and_names_the_counts",
    ),
    "NVIDIA/TensorRT-Model-Connect#888": (
        f"{_MEASURE}nvidia_tensorrt_model_connect_888_check_warns_of_a_limit_finer_than_one_example",
        f"{_MEASURE}nvidia_tensorrt_model_connect_888_the_study_says_it_where_only_the_baseline_tells_n",
        f"{_MEASURE}nvidia_tensorrt_model_connect_888_enough_examples_or_an_absolute_limit_are_fine",
        "unit/test_results.py::test_limits_that_so_few_examples_cannot_decide_stay_undecided",
        "unit/test_results.py::test_ties_within_noise_are_marked_and_the_simpler_configuration_is_recommended",
    ),
    "triton-inference-server/model_analyzer#435": "the load (concurrency, request rate) comes with serving trials",
    "huggingface/accelerate#1934": (
        f"{_MEASURE}huggingface_accelerate_1934_failures_have_kinds_and_the_first_cause_is_shown",
    ),
    "deepspeedai/DeepSpeed#4100": (
        f"{_TRIALS}deepspeedai_deepspeed_4100_a_trial_that_hangs_is_ended_with_its_processes_and_the_next_starts",
    ),
    "deepspeedai/DeepSpeed tests/unit/autotuning (None metric)": (
        f"{_TRIALS}deepspeedai_deepspeed_autotuning_where_everything_runs_out_of_memory_nothing_is_lost",
    ),
    "huggingface/transformers#27830": (
        f"{_TRIALS}huggingface_transformers_27830_equal_failures_in_a_row_end_with_the_first_one_s_log",
        f"{_COMMAND}huggingface_transformers_27830_an_argument_mismatch_shows_the_programs_own_words",
    ),
    "triton-inference-server/model_analyzer#697": (
        f"{_TRIALS}triton_inference_server_model_analyzer_697_where_nothing_was_measured_no_report_looks_like_a_result",
    ),
    "openshift-psap/auto-tuning-vllm#39": (
        f"{_TRIALS}openshift_psap_auto_tuning_vllm_39_by_default_one_trial_has_the_whole_machine",
        f"{_TRIALS}openshift_psap_auto_tuning_vllm_39_sharing_is_asked_for_and_marked",
    ),
    "openshift-psap/auto-tuning-vllm#97": (
        f"{_TRIALS}openshift_psap_auto_tuning_vllm_97_a_failure_of_its_own_is_never_tried_again",
        f"{_TRIALS}openshift_psap_auto_tuning_vllm_97_what_was_killed_is_tried_twice_and_each_is_recorded",
    ),
    "ray-project/ray#23971": (
        f"{_TRIALS}ray_project_ray_23971_out_of_memory_beside_foreign_memory_is_tried_once_more",
        f"{_TRIALS}ray_project_ray_23971_every_trial_is_a_process_of_its_own",
    ),
    "huggingface/optimum-benchmark energy_star/text_generation.yaml": (
        f"{_TRIALS}huggingface_optimum_benchmark_energy_star_a_disturbed_measurement_is_repeated_then_marked",
        "unit/trials/test_measurement.py::test_foreign_load_above_the_limit_contaminates_and_says_how_much",
    ),
    "ray-project/ray#31451": (
        "faults/test_cli_killed.py::test_a_killed_run_leaves_no_process_and_the_next_one_finishes_the_study",
        "faults/test_killed_processes.py::test_the_driver_s_death_leaves_no_process_and_the_next_run_finds_its_folder",
        "unit/execution/test_marks.py::test_a_dead_driver_s_process_and_folder_are_named_and_ended_and_no_other",
    ),
    "triton-inference-server/model_analyzer#128": (
        "integration/test_cli_run.py::test_ctrl_c_saves_everything_says_how_to_go_on_and_the_study_goes_on",
        f"{_TRIALS}triton_inference_server_model_analyzer_128_a_second_ctrl_c_ends_at_once_with_130",
        f"{_TRIALS}triton_inference_server_model_analyzer_128_an_interrupted_trial_goes_back_to_the_queue",
    ),
    "pytorch/pytorch#108269": (
        f"{_TRIALS}pytorch_pytorch_108269_the_report_shows_the_failure_rate_of_each_pair_of_values",
        f"{_TRIALS}pytorch_pytorch_108269_without_failures_or_without_pairs_there_is_no_table",
        "unit/test_results.py::test_values_that_fail_together_are_listed_and_lone_accidents_are_not",
    ),
    "optuna/optuna#2199": (
        f"{_RESUME}optuna_optuna_2199_an_added_choice_is_refused_with_a_diff_and_a_new_generation_reuses",
        "unit/cli/test_bad_files.py::test_a_file_that_differs_from_the_recorded_study_is_refused_with_a_diff",
    ),
    "optuna 5.0.0, resume with another int range": (
        f"{_RESUME}optuna_5_0_0_resume_with_another_int_range_mixes_nothing",
    ),
    "optuna 5.0.0, reload with other objectives": (
        f"{_RESUME}optuna_5_0_0_reload_with_other_objectives_or_limits_is_refused",
    ),
    "openshift-psap/auto-tuning-vllm#60": (
        f"{_RESUME}openshift_psap_auto_tuning_vllm_60_trials_are_the_total_and_more_adds",
    ),
    "optuna/optuna#3215": (
        f"{_RESUME}optuna_optuna_3215_a_kill_in_trial_7_leaves_nothing_running_and_its_point_goes_first",
        f"{_STUDY}test_resume.py::test_a_study_cut_at_any_moment_ends_as_if_it_had_not_been",
    ),
    "optuna/optuna#820": (
        "faults/test_records_faults.py::test_a_lock_held_for_seconds_delays_a_finished_measurement_and_does_not_lose_it",
        "faults/test_records_faults.py::test_records_can_be_opened_while_another_process_writes",
        "faults/test_records_faults.py::test_many_processes_may_create_the_same_records_at_once",
        "unit/records/test_filesystem.py::test_the_mount_closest_above_decides",
    ),
    "mlflow/mlflow#9425": (
        f"{_MLFLOW}mlflow_9425_any_metric_name_is_shown_under_a_stable_clean_one",
        f"{_MLFLOW}mlflow_9425_two_names_that_clean_alike_are_both_shown",
    ),
    "NVIDIA-NeMo/RL#1068": (f"{_MLFLOW}nemo_rl_1068_a_metric_and_one_below_it_coexist",),
    "mlflow/mlflow#1976": (
        f"{_MLFLOW}mlflow_1976_a_parameter_of_7000_characters_is_cut_tagged_and_kept_whole_elsewhere",
    ),
    "mlflow/mlflow#1234": (
        f"{_MLFLOW}mlflow_1234_no_logging_error_leaves_the_tracker",
        "faults/test_mlflow_away.py::test_a_server_that_is_away_costs_one_warning_and_a_bounded_time",
        "contracts/tracking_suite.py::TrackingSuite::test_what_was_not_written_before_a_kill_is_replayed_into_the_same_runs",
    ),
    "ray-project/ray#34857": (
        f"{_MLFLOW}ray_34857_a_nested_configuration_is_flat_and_children_lie_under_the_study",
        "unit/tracking/test_views.py::test_the_study_shows_its_curve_its_front_and_its_reference_point",
    ),
    "mlflow/mlflow#12259": (f"{_MLFLOW}mlflow_12259_an_experiment_that_several_make_at_once_is_one",),
    "mlflow 3.17.2, file store": (
        f"{_MLFLOW}mlflow_3_17_file_store_a_folder_is_explained_and_sqlite_is_the_default",
    ),
    "intel/neural-compressor#2261": (
        f"{_JUDGED}neural_compressor_2261_the_nearest_miss_reads_as_a_sentence",
        f"{_OUT}intel_neural_compressor_2261_a_goal_that_nobody_met_is_3_with_the_nearest_and_everything_kept",
    ),
    "microsoft/Olive#1439": (
        f"{_JUDGED}olive_1439_one_stated_rule_picks_one_and_says_what_it_gave_up",
        f"{_OUT}microsoft_olive_1439_one_of_seven_is_exported_by_a_stated_rule_and_the_same_each_time",
    ),
    "microsoft/Olive#472": (
        f"{_JUDGED}olive_472_every_trial_is_in_the_report_and_the_front_is_a_view",
        f"{_OUT}microsoft_olive_472_failed_and_dominated_trials_are_in_the_json",
        "unit/cli/test_export_study.py::test_csv_has_every_trial_with_its_fate_and_numbers",
    ),
}

LATER = {
    "vllm-project/vllm#4232": "the legal degrees of a model, read from its configuration: with serving trials",
    "ray-project/ray#23971": "waiting until a device's memory has returned: needs a GPU to be tried on",
    "huggingface/optimum-benchmark energy_star/text_generation.yaml": (
        "foreign processes on a GPU: needs a GPU to be tried on; foreign load on the cores is covered"
    ),
    "triton-inference-server/client#116": "a window that grows until a request has finished: with serving trials",
    "deepspeedai/DeepSpeed#4100": "a rank that dies while the others wait: with several ranks",
}
"""Parts of covered cases that belong to pieces still to come."""
