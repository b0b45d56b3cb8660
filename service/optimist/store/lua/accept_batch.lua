-- uses: prelude retracted named_batch
-- keys: generators counts
-- args: who reason most

-- Accepts the named batch, which is on another scale, as it is. who, reason: as JSON. most: how many single batches of an
-- experiment may be accepted. Answers the generator, the record, and 1 if it was accepted before.
--
-- In `counts`: accepted_<g>_<position> is the record of one batch, accepted_<g>_0 of all up to its "until".
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
  local all = redis.call('HGETALL', counts)
  for i = 1, #all, 2 do
    if all[i]:find('retracted_' .. g .. '_', 1, true) == 1 and all[i + 1]:find('"seq":' .. at .. ',', 1, true) then
      return {'not-found', 'position ' .. at .. ' of generator ' .. name .. ' is a retraction, not a batch'}
    end
  end
end

local whole = redis.call('HGET', counts, 'accepted_' .. g .. '_0')
local until_then = whole and tonumber(whole:match('"until":(%d+)')) or 0
if until_then <= restarted(g) then
  until_then = 0
end
if (at == 0 and tonumber(seq) or at) <= until_then then
  return {'ok', g, whole, 1}
end
local field = 'accepted_' .. g .. '_' .. at
local known = at > 0 and redis.call('HGET', counts, field)
if known then
  return {'ok', g, known, 1}
elseif at > 0 and tonumber(redis.call('HGET', counts, 'acceptances') or 0) >= tonumber(most) then
  return {'conflict', 'expected at most ' .. most .. ' single batches; possible: all batches of a generator at once'}
end
local record = string.format('{"position":%d,"until":%d,"who":%s,"when":%.6f,"reason":%s}', at,
  at == 0 and tonumber(seq) or at, who, now(), reason)
redis.call('HSET', counts, field, record)
if at > 0 then
  redis.call('HINCRBY', counts, 'acceptances', 1)
end
changed()
return {'ok', g, record, 0}
