"""Real workers on a stage: what `fairlane demo` and `fairlane replay` share. Only they import it.

scenario.py   which job comes when
feed.py       enqueues each at its time
hands.py      the program of a worker process; its handlers write the oracle log
stage.py      a temporary folder, a store in it, the worker processes; takes everything away at the end
oracle.py     reads the log, and judges by it alone what was lost and what ran twice
board.py      what waits, runs and is done, by tier and tenant
play.py       the loop around them
screen.py     the live picture and the event lines
closing.py    the tables at the end
"""
