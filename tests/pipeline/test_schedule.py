"""Schedules as data, and what they come to on paper."""

import random

import pytest
from gramme.pipeline import Action, Schedule, ScheduleError, Value, simulate
from torch.distributed.pipelining import schedules as torchs

SIZES = [(1, 1), (2, 1), (2, 5), (4, 4), (4, 9), (8, 3)]
INTERLEAVED = [(2, 4, 4), (4, 8, 8), (2, 6, 2), (4, 16, 4), (1, 3, 2)]


def as_torchs(schedule):
    return {
        rank: [None if action is None else torchs._Action.from_str(str(action)) for action in row]
        for rank, row in enumerate(schedule.rows)
    }


def texts(actions):
    return [str(action) for action in actions if action is not None]


def torchs_interleaved_zero_bubble(ranks, stages, micro_batches):
    own = torchs.ScheduleInterleavedZeroBubble.__new__(torchs.ScheduleInterleavedZeroBubble)
    own.pp_group_size, own.n_local_stages, own._n_microbatches = ranks, stages // ranks, micro_batches
    own.number_of_rounds = max(1, micro_batches // ranks)
    own.microbatches_per_round = micro_batches // own.number_of_rounds
    own.pipeline_order = {rank: own._calculate_single_rank_operations(rank) for rank in range(ranks)}
    return own._add_bubbles_to_actions(stages)


def torchs_zbv(ranks, micro_batches):
    own = torchs.ScheduleZBVZeroBubble.__new__(torchs.ScheduleZBVZeroBubble)
    own.pp_group_size, own.num_stages, own._n_microbatches = ranks, 2 * ranks, micro_batches
    own._num_stages, order = own.num_stages, {}
    for own.rank in range(ranks):
        order[own.rank] = own._calculate_single_rank_operations(own.rank)
    return order


@pytest.mark.parametrize(("stages", "micro_batches"), SIZES)
@pytest.mark.parametrize("make", [Schedule.gpipe, Schedule.one_f_one_b])
def test_as_torchs(make, stages, micro_batches):
    schedule = make(stages, micro_batches)
    assert (schedule.stages, schedule.micro_batches) == (stages, micro_batches)
    torchs._validate_schedule(as_torchs(schedule), stages, stages, micro_batches)
    assert simulate(schedule).time == 3 * (micro_batches + stages - 1)
    if make is Schedule.one_f_one_b and micro_batches < stages:
        return  # torch's refuses that
    kind = torchs.ScheduleGPipe if make is Schedule.gpipe else torchs.Schedule1F1B
    own = kind.__new__(kind)
    own._num_stages, own._n_microbatches = stages, micro_batches
    for rank, row in kind._get_pipeline_order(own).items():
        if make is Schedule.one_f_one_b and rank == stages - 1:
            continue  # torch's description of it, which it does not run, counts forwards from 1
        computed = [action for action in row if action is not None and action.is_compute_op]
        assert texts(computed) == texts(schedule.rows[rank])


@pytest.mark.parametrize(("ranks", "stages", "micro_batches"), INTERLEAVED)
def test_interleaved_as_torchs(ranks, stages, micro_batches):
    schedule = Schedule.interleaved(ranks, stages, micro_batches)
    torchs._validate_schedule(as_torchs(schedule), ranks, stages, micro_batches)
    assert simulate(schedule).bubble < 1
    if ranks == 1:
        return
    own = torchs.ScheduleInterleaved1F1B.__new__(torchs.ScheduleInterleaved1F1B)
    own.pp_group_size, own.n_local_stages, own._n_microbatches = ranks, stages // ranks, micro_batches
    own.number_of_rounds = max(1, micro_batches // ranks)
    own.microbatches_per_round = micro_batches // own.number_of_rounds
    for rank in range(ranks):
        assert texts(own._calculate_single_rank_operations(rank)) == texts(schedule.rows[rank])


@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 2), (2, 4), (4, 8), (8, 16)])
def test_zero_bubble_as_torchs(stages, micro_batches):
    schedule = Schedule.zero_bubble(stages, micro_batches)
    assert [[str(action) for action in row] for row in schedule.rows] == [
        texts(row) for row in torchs_interleaved_zero_bubble(stages, stages, micro_batches).values()
    ]
    whole = Schedule.one_f_one_b(stages, micro_batches)
    assert simulate(schedule).time <= simulate(whole).time - max(0, stages - 2)
    assert simulate(schedule, saved=1).peak_bytes[0] == simulate(whole, saved=1).peak_bytes[0]


def test_halves_of_weights_wait_for_those_of_other_takers():
    schedule = Schedule.from_csv("0F0,0I0,0W0\n1F0,1I0,1W0")
    shared = [Value("value", 0, (1,)), Value("weight", None, (0, 1), is_weight=True)]
    ended = {str(span.action): span.end for span in simulate(schedule, values=shared).spans}
    assert ended["0I0"] == ended["1I0"] + 1
    assert ended["0W0"] == ended["1W0"] + 1
    late = Schedule.from_csv("0F0,0I0,0W0,0F1,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1")
    simulate(late)
    with pytest.raises(ScheduleError, match="rank 0 waits at 0W0 for the weights' backward of stage 1"):
        simulate(late, values=shared)


def test_interleaved_needs_multiples():
    for sizes in ((2, 3, 4), (2, 4, 3), (0, 4, 4)):
        with pytest.raises(ValueError, match="must be multiples"):
            Schedule.interleaved(*sizes)


def test_text_and_back(tmp_path):
    for schedule in (Schedule.gpipe(3, 2), Schedule.interleaved(2, 4, 2), Schedule.sequential(2, 3)):
        assert Schedule.from_csv(schedule.to_csv()) == schedule
        schedule.save(tmp_path / "schedule.csv")
        assert Schedule.load(tmp_path / "schedule.csv") == schedule


def test_files_of_torch(tmp_path):
    own = torchs.PipelineScheduleMulti.__new__(torchs.PipelineScheduleMulti)
    own.pipeline_order = as_torchs(Schedule.one_f_one_b(2, 3))
    own._dump_csv(tmp_path / "torch.csv")
    assert Schedule.load(tmp_path / "torch.csv") == Schedule.one_f_one_b(2, 3)


def test_cells():
    schedule = Schedule.from_csv("0F0,,(0F1;0B0)OVERLAP_F_B,0B1,0UNSHARD,1SEND_F1,0REDUCE_GRAD\n")
    assert schedule.rows[0][1] is None
    assert texts(schedule.computations(0)) == ["0F0", "0F1", "0B0", "0B1"]
    assert str(schedule.rows[0][2]) == "(0F1;0B0)OVERLAP_F_B"
    assert schedule.to_csv() == "0F0,,(0F1;0B0)OVERLAP_F_B,0B1,0UNSHARD,1SEND_F1,0REDUCE_GRAD\n"
    assert simulate(Schedule.from_csv("0F0,0I0,0W0")).time == 3
    assert Action.parse("11B30") == Action(11, "B", 30)


@pytest.mark.parametrize("cell", ["0X1", "F0", "0F", "0F1x", "(0F0)OTHER"])
def test_no_cells(cell):
    with pytest.raises(ScheduleError, match="rank 1, cell 2"):
        Schedule.from_csv(f"0F0,0B0\n1F0,1B0,{cell}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1",
            r"rank 0 waits at 0B0 for the backward of stage 1; rank 1 waits at 1F1 for",
        ),
        ("0B0,0F0", "0B0 before 0F0"),
        ("0F0,0W0", "0W0 before 0I0"),
        ("0F0,0F0,0B0", "0F0 twice"),
        ("0F0,0B0,0I0,0W0", "the backward of stage 0, micro-batch 0, twice"),
        ("0F0,0B0,0F1", "the backward of stage 0, micro-batch 1, is missing"),
        ("0F0,0B0\n1F0", "the backward of stage 1, micro-batch 0, is missing"),
        ("0F0,0I0", "is missing"),
        ("0F0\n2F0", "1F0 is missing"),
        ("0F0\n0F1", "stage 0 is on rank 0 and on rank 1"),
    ],
)
def test_what_cannot_be_carried_out(text, message):
    with pytest.raises(ScheduleError, match=message):
        simulate(Schedule.from_csv(text))


def test_times_and_bubble():
    found = simulate(Schedule.gpipe(2, 4), forward=[1, 2], backward=[2, 4])
    assert found.time == 1 + 4 * 2 + 4 * 4 + 2
    assert found.bubble == pytest.approx(1 - (4 * 3 + 4 * 6) / (2 * found.time))
    for span in found.spans:
        assert span.end - span.start == (1 if span.action.kind == "F" else 2) * (1 + span.action.stage)
    with pytest.raises(ValueError, match="3 costs for 2 stages"):
        simulate(Schedule.gpipe(2, 4), forward=[1, 2, 3])


def test_peak_bytes():
    saved = {"saved": 10}
    assert simulate(Schedule.gpipe(4, 8), **saved).peak_bytes == (80, 80, 80, 80)
    assert simulate(Schedule.one_f_one_b(4, 8), **saved).peak_bytes == (40, 30, 20, 10)
    # A far value lies with its taker from when it is given; relayed, with all in between, too.
    far = [Value("near", 0, (1,)), Value("middle", 1, (2,)), Value("far", 0, (2,), bytes=5)]
    direct = simulate(Schedule.gpipe(3, 4), values=far)
    relayed = simulate(Schedule.gpipe(3, 4), values=[value.relayed for value in far])
    assert (direct.peak_bytes, direct.moved_bytes) == ((0, 0, 20), 20)
    assert (relayed.peak_bytes, relayed.moved_bytes) == ((0, 20, 20), 40)
    assert simulate(Schedule.gpipe(3, 4).forward_only(), values=far).peak_bytes == (0, 0, 10)


def test_gradients_of_shared_values_go_from_taker_to_taker():
    """A parameter of stages 0 and 2: the backward of stage 0 waits for that of stage 2."""
    schedule = Schedule.from_csv("0F0,0B0\n1F0,1B0\n2F0,2B0")
    apart = simulate(schedule, values=[])
    assert apart.time == 3
    tied = simulate(schedule, values=[Value("weight", None, (0, 2))])
    assert tied.time == 5


def test_random_schedules_stop_or_take_as_long_as_torchs():
    """Rows shuffled: torch's own simulator stops at the same ones."""
    numbers = random.Random(0)
    stopped = 0
    for _ in range(100):
        rows = [list(row) for row in Schedule.one_f_one_b(3, 3).rows]
        for row in rows:
            i = numbers.randrange(len(row) - 1)
            row[i], row[i + 1] = row[i + 1], row[i]
        schedule = Schedule(tuple(map(tuple, rows)))
        try:
            torchs._validate_schedule(as_torchs(schedule), 3, 3, 3)
            lowered = torchs._add_send_recv(as_torchs(schedule), lambda stage: stage, 3)
            torchs._simulate_comms_compute(lowered, lambda stage: stage, 3)
            runs = True
        except (AssertionError, ValueError):
            runs = False
        if runs:
            simulate(schedule)
        else:
            stopped += 1
            with pytest.raises(ScheduleError):
                simulate(schedule)
    assert 0 < stopped < 100


def test_ten_thousand_cells():
    schedule = Schedule.one_f_one_b(8, 625)
    assert len(simulate(schedule).spans) == 10_000
