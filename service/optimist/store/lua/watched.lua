-- uses: prelude units
-- keys: generators watched scoring_errors snapshots counts watched_counts
-- args: wants_estimates held*(unit made)

-- Answers what is known of each generator by each watched metric, all of one moment, for each {generator, label, name of
-- its newest estimate, scoring error, position of its snapshot, bytes logged since, "<seq> <payload>" of the estimate}. The last
-- is '' where `held` has the name of this estimate, and wherever wants_estimates is not 1.
local function table_of(hash)
  local all, found = redis.call('HGETALL', hash), {}
  for i = 1, #all, 2 do
    found[all[i]] = all[i + 1]
  end
  return found
end

local has = {}
for _, one in ipairs(held) do
  has[one.unit] = one.made
end
local labels, answer = all_labels(), {}
if #labels == 1 then
  return {'ok', answer}
end
local facts, notes, pointers = table_of(watched_counts), table_of(scoring_errors), table_of(snapshots)
for g = 0, redis.call('HLEN', generators) - 1 do
  local bytes = redis.call('HGET', counts, g .. ':bytes')
  for i = 2, #labels do
    local unit = unit_of(g, labels[i])
    local made = facts['made_' .. unit] or ''
    local is_new = wants_estimates == '1' and made ~= '' and made ~= has[unit]
    answer[#answer + 1] = {
      g, labels[i], made, notes[unit] or false, position_of(pointers[unit]),
      string.format('%.0f', bytes - (facts[unit .. ':snapshot_bytes'] or 0)),
      is_new and redis.call('HGET', watched, unit) or '',
    }
  end
end
return {'ok', answer}
