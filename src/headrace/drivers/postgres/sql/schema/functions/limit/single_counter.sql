-- The counter that items of all the given channels count in, if it is the only one, with its limit: most
-- items are under one rule, or none. Null if there are others, or if some channel is not bound to a
-- version of the rules.
create function headrace.single_counter(
    channels integer[], rule_version integer, out counter integer, out max_used bigint
) language plpgsql as $$
declare
    binding record;
begin
    select c.counted, c.checked, c.max_used into binding
    from headrace.channel c where c.id = channels[1];
    if binding.counted = binding.checked and cardinality(binding.counted) = 1
            and array_position(channels, 0) is null then
        perform from headrace.channel c
        where c.id = any(channels)
          and (c.bound_version >= rule_version and c.counted = binding.counted
               and c.checked = binding.checked and c.max_used = binding.max_used) is not true
        limit 1;
        if not found then
            counter := binding.counted[1];
            max_used := binding.max_used[1];
        end if;
    end if;
end
$$;
