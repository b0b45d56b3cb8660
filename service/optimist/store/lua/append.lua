-- uses: prelude retracted checking accept
-- keys: appended appended_at generators counts
-- args: generator key digest rows body start measures channel experiment remembered seconds

-- Accepts a batch without a pick. key: idempotency key. start: index of the first row in the generator's sequence, or ''
-- for rows without indices. remembered, seconds: how many keys are remembered, and for how long. Answers {answer, 1 if
-- it was appended before, else 0; 0 and what is anomalous about it if it was not}.

-- The same key for another generator is another batch.
key = generator .. '\t' .. key
local batch = start == '' and digest or digest .. ' ' .. start

local known = redis.call('HGET', appended, key)
if known then
  local before, answer = known:match('^([^\t]*)\t(.*)$')
  local refused = refused_again(answer, before == batch)
  if refused then
    return refused
  elseif before == batch then
    return {'ok', answer, 1}
  end
  return {'conflict', 'another batch, or the same one with another start, was appended under this key'}
elseif redis.call('HEXISTS', generators, generator) == 0 then
  return {'not-found', 'there is no such generator'}
end
local size, handed = unpack(redis.call('HMGET', counts, 'batch_size', generator .. ':handed'))
if start ~= '' and not size then
  return {'refused', 'start: samples of this experiment have no indices'}
elseif start ~= '' and is_seedless(generator) then
  return {'refused', 'start: expected none, as the generator ignores seeds, so that its samples have no indices'}
end
local part = part_of(generator, start ~= '' and start .. ' ' .. rows or '', rows)
local answer, oddity, _
if part.rows == 0 then
  answer = uncounted_answer(generator, '0', rows, false)
else
  local found, refusal = check(generator, part.rows, measures)
  if refusal then
    return refusal
  end
  answer, _, oddity = accept(generator, '0', digest, part, body, false, channel, experiment, found)
end
-- Picks go on behind these indices, where its samples have any, at a multiple of the batch size.
if start ~= '' and start + rows > tonumber(handed) then
  redis.call('HSET', counts, generator .. ':handed', string.format('%.0f', math.ceil((start + rows) / size) * size))
end
redis.call('HSET', appended, key, batch .. '\t' .. answer)
redis.call('ZADD', appended_at, now(), key)

-- At most two are forgotten in a call, so that none takes long.
local oldest = redis.call('ZRANGE', appended_at, 0, 1, 'WITHSCORES')
for i = 1, #oldest, 2 do
  if redis.call('ZCARD', appended_at) > tonumber(remembered) or tonumber(oldest[i + 1]) < now() - seconds then
    redis.call('HDEL', appended, oldest[i])
    redis.call('ZREM', appended_at, oldest[i])
  end
end
if part.rows == 0 then
  return {'ok', answer, 1}
end
return {'ok', answer, 0, 0, oddity}
