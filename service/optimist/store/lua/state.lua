-- uses: prelude reading
-- keys: generators told
-- args: remembered wants_told wants_all wants_estimates

-- Answers the state of the experiment and, where `wants_told` is 1, the told intervals of each generator, by ordinal.
-- remembered: how many expired picks are remembered. The other two are 1 or 0, as read_state takes them.
-- Where the caller has read an earlier state, the answer is as in exchange.lua.
local changes_since = read_changes(remembered, wants_all == '1')
if changes_since or since ~= '' then
  return {'ok', changes_since or {'all'}, {}}
end
local state, intervals = read_state(remembered, wants_all == '1', wants_estimates == '1'), {}
for g = 0, wants_told == '1' and redis.call('HLEN', generators) - 1 or -1 do
  intervals[g + 1] = redis.call('ZRANGE', told .. ':' .. g, 0, -1)
end
return {'ok', state, intervals}
