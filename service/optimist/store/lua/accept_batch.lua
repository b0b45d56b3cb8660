-- uses: prelude retracted named_batch
-- keys: generators counts acceptances retractions
-- args: who reason max_single

-- Accepts the named batch, which is on another scale, as it is. max_single: how many single batches of an experiment may be
-- accepted. Answers the record as fields and values, and 1 if it was accepted before.
--
-- `acceptances` is a stream of these records. In `counts`, accepted_<g>_<position> is the id of that of one batch, and
-- accepted_<g>_0 of that of all batches up to <g>:accepted.
local g, at = named_batch('conflict')
if not g then
  return at
end
local name = redis.call('HGET', generators, g)
local seq, batches = unpack(redis.call('HMGET', counts, g .. ':seq', g .. ':batches'))
if at == 0 then
  if batches == '0' then
    return {'not-found', 'generator ' .. name .. ' has no batches'}
  end
elseif is_retracted(g, at) then
  return {'retracted', 'the batch at position ' .. at .. ' of generator ' .. name .. ' was retracted: it does not count'}
else
  for _, one in ipairs(redis.call('XRANGE', retractions, '-', '+')) do
    -- Its first fields are the generator and its own position.
    if one[2][2] == g and tonumber(one[2][4]) == at then
      return {'not-found', 'position ' .. at .. ' of generator ' .. name .. ' is a retraction, not a batch'}
    end
  end
end

local whole, last = unpack(redis.call('HMGET', counts, 'accepted_' .. g .. '_0', g .. ':accepted'))
local until_then = tonumber(last or 0)
if until_then <= restarted(g) then
  until_then = 0
end
if (at == 0 and tonumber(seq) or at) <= until_then then
  return {'ok', entry_in(acceptances, whole), 1}
end
local field = 'accepted_' .. g .. '_' .. at
local known = at > 0 and redis.call('HGET', counts, field)
if known then
  return {'ok', entry_in(acceptances, known), 1}
elseif at > 0 and tonumber(redis.call('HGET', counts, 'acceptances') or 0) >= tonumber(max_single) then
  return {'conflict', 'expected at most ' .. max_single .. ' single batches; possible: all batches of a generator at once'}
end
local id = redis.call('XADD', acceptances, '*', 'generator', g, 'position', at, 'until', at == 0 and seq or at,
  'who', who, 'when', string.format('%.6f', now()), 'reason', reason)
redis.call('HSET', counts, field, id)
if at > 0 then
  redis.call('HINCRBY', counts, 'acceptances', 1)
else
  redis.call('HSET', counts, g .. ':accepted', seq)
  if whole then
    redis.call('XDEL', acceptances, whole)
  end
end
changed()
return {'ok', entry_in(acceptances, id), 0}
