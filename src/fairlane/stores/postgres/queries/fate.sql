-- What became of a transaction: committed, aborted, in progress; null when another server answers, or it is too long ago.
-- :number the transaction's, :line the server's line of history, which ends where another one takes over.
SELECT CASE WHEN
%% part_line
    = %(line)s THEN pg_xact_status(%(number)s::xid8)
END
