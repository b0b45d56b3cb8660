-- uses: prelude
-- keys: blended generators
-- args: request size remembered shares*(generator share)

-- How many of the next `size` samples each generator makes, so that all that were ever shared out make the mixture: the
-- arithmetic of policies/mixture_policy.py, operation by operation, whose credits `blended` holds by ordinal. The shares
-- sum to 1.
-- request: a repeat gets the same answer, as long as `remembered` newer ones have not come. They stand there as
-- "#<request>", and in order in `order`. Answers a count for each of `shares`.
local repeated = redis.call('HGET', blended, '#' .. request)
if repeated then
  return {'ok', repeated}
end
local owed, taken, left = {}, {}, tonumber(size)
for i, one in ipairs(shares) do
  if redis.call('HEXISTS', generators, one.generator) == 0 then
    return {'not-found', 'there is no generator ' .. one.generator}
  end
  owed[i] = tonumber(redis.call('HGET', blended, one.generator) or 0) + one.share * size
  taken[i] = math.max(0, math.floor(owed[i]))
  left = left - taken[i]
end

-- Where the weights have changed, whole parts may be too many.
while left < 0 do
  local least
  for i = 1, #shares do
    if taken[i] > 0 and (not least or owed[i] - taken[i] < owed[least] - taken[least]) then
      least = i
    end
  end
  taken[least], left = taken[least] - 1, left + 1
end
-- The rest goes to those whose next sample is due first, and of a generator that is ahead nothing is due while another one
-- is behind.
while left > 0 do
  local first, is_ahead, due
  for i, one in ipairs(shares) do
    if tonumber(one.share) > 0 then
      local rest = owed[i] - taken[i]
      local ahead, at = rest <= 0, (1 - rest) / one.share
      if not first or is_ahead and not ahead or is_ahead == ahead and at < due then
        first, is_ahead, due = i, ahead, at
      end
    end
  end
  taken[first], left = taken[first] + 1, left - 1
end

local fields = {}
for i, one in ipairs(shares) do
  fields[#fields + 1], fields[#fields + 2] = one.generator, string.format('%.17g', owed[i] - taken[i])
  taken[i] = string.format('%.0f', taken[i])
end
local answer = table.concat(taken, ' ')
local order, forgotten = (redis.call('HGET', blended, 'order') or '') .. '#' .. request .. ' ', nil
local _, known = order:gsub(' ', '')
if known > tonumber(remembered) then
  forgotten, order = order:match('^(%S+) (.*)$')
end
fields[#fields + 1], fields[#fields + 2] = 'order', order
fields[#fields + 1], fields[#fields + 2] = '#' .. request, answer
redis.call('HSET', blended, unpack(fields))
if forgotten then
  redis.call('HDEL', blended, forgotten)
end
return {'ok', answer}
