create constraint trigger number_batches after insert on headrace.batch
    deferrable initially deferred
    for each row when (new.base_seq is null and new.stage is null)
    execute function headrace.number_batches();
-- Also for a role or a session with session_replication_role = replica. Rows that a subscriber gets
-- by logical replication have their numbers.
alter table headrace.batch enable always trigger number_batches;
