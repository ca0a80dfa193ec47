-- Statements that commit records to one topic, where there is nothing else to do.

-- name: number_row
-- Give out numbers at the end of a topic; answers nothing if it is not there. A row that continues
-- the one before it in the same commit has its time.
update headrace_topic
set next_seq = next_seq + :count,
    last_ts = case when :continues then last_ts
                   else max(last_ts, coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer))) end
where name = :topic
returning id, next_seq - :count as base_seq, last_ts as ts,
          coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) as now;
