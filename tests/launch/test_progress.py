from dtcl_core.launch import progress


def test_progress_tells_time_left_without_a_terminal(all_methods, capsys, monkeypatch):
    clock = iter([0.0, 10.0, 70.0, 70.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    shown = progress.Progress([all_methods[:10]])  # 10 runs of 2 epochs
    stack = type("Stack", (), {"runs": all_methods[:10]})()
    shown.epoch(stack)  # within the first minute: silent
    assert capsys.readouterr().out == ""
    shown.stack_done(stack.runs)
    assert "10 of 10 runs done; 10 of 20 run-epochs, 0.14 a second; about 70 s left" in capsys.readouterr().out


def test_a_little_time_left_is_told_in_seconds(all_methods, capsys, monkeypatch):
    clock = iter([0.0, 61.0, 61.0, 65.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    shown = progress.Progress([all_methods[:8]])
    stack = type("Stack", (), {"runs": all_methods[:8]})()
    shown.trained = 7.5  # of 16 run-epochs
    shown.epoch(stack)
    assert "about 2 s left" in capsys.readouterr().out
    shown.trained = 16
    shown._tell()
    assert "left" not in capsys.readouterr().out


def test_epochs_of_an_earlier_call_are_done_but_do_not_count_for_the_rate(all_methods, capsys, monkeypatch):
    clock = iter([0.0, 61.0, 61.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    shown = progress.Progress([all_methods[:10]])  # 10 runs of 2 epochs
    shown.restored(type("Stack", (), {"runs": all_methods[:10], "epoch": 1})())
    shown.trained = 4  # by this one
    shown.epoch(type("Stack", (), {"runs": all_methods[:1]})())
    assert "15 of 20 run-epochs, 0.08 a second; about 61 s left" in capsys.readouterr().out
