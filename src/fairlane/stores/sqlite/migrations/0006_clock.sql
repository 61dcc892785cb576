-- A clock that is set: which jobs wait for an instant of the wall clock (1), and which for a span of time (0).
ALTER TABLE job ADD COLUMN by_wall INTEGER NOT NULL DEFAULT 0;
