-- ARGV: pick, digest, rows, body, channel, experiment. Answers {answer, 1 if it was told before}.
local number, digest, rows, body, channel, experiment = unpack(ARGV)

local pick = redis.call('HGET', picks, number)
if not pick then
  return recall(number, digest)
end
local g = pick:match('^%d+')
local seq = tonumber(redis.call('HGET', counts, g .. ':seq')) + 1
local deadline = redis.call('ZSCORE', leases, number)
local late = not deadline or tonumber(deadline) <= now()

-- The first write is the one that Redis refuses when memory is full, so that it refuses all or nothing.
redis.call('XADD', log .. ':' .. g, seq .. '-0', 'pick', number, 'rows', rows, 'digest', digest, 'body', body)
local samples = redis.call('HINCRBY', counts, g .. ':samples', rows)
local batches = redis.call('HINCRBY', counts, g .. ':batches', 1)
redis.call('HSET', counts, g .. ':seq', seq)
redis.call('HINCRBY', counts, 'told', 1)

-- decisions.md §2: estimates are due at fixed sample counts, whoever computes them and whenever.
local due = tonumber(redis.call('HGET', counts, g .. ':due_samples'))
local growth = tonumber(redis.call('HGET', counts, 'growth'))
if samples >= 2 and (due == 0 or samples >= (1 + growth) * due) then
  redis.call('HSET', counts, g .. ':due_samples', samples, g .. ':due_seq', seq)
  redis.call('PUBLISH', channel, experiment .. ' ' .. g .. ' ' .. seq)
end

redis.call('APPEND', history, struct.pack('<HBI4', tonumber(g), late and 1 or 0, tonumber(rows)))
local answer = string.format(
  '{"pick":%d,"generator":%d,"rows":%d,"samples":%d,"batches":%d,"seq":%d,"late":%s}',
  tonumber(number), tonumber(g), tonumber(rows), samples, batches, seq, tostring(late))
release(number)
redis.call('HDEL', picks, number)
redis.call('HDEL', returned, number)
redis.call('HSET', settled, number, digest .. '\t' .. answer)
return {'ok', answer, 0}
