-- Move a lane's counts.
-- In order: available (more), scheduled (more), the lane's number.
UPDATE lane SET available = available + ?, scheduled = scheduled + ? WHERE id = ?
