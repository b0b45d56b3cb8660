-- uses: prelude
-- keys: blended generators
-- args: request size remembered weights*(generator weight)

-- How many of the next `size` samples each generator makes, so that all that were ever shared out are in proportion to
-- the weights. `blended` holds by ordinal the samples that are owed so far, which sum to 0; a generator's grow by weight
-- times size, and each is given as many whole ones; what is left goes to the largest remainders. policies/blended.py
-- computes the same.
-- request: a repeat gets the same answer, as long as `remembered` newer ones have not come. They stand there as
-- "#<request>", and in order in `order`. `instance`: an older service deletes the experiment without this hash.
-- Answers a count for each of `weights`.
if redis.call('HGET', blended, 'instance') ~= instance then
  redis.call('HSET', blended, 'instance', instance) -- first a write that is refused while memory is full
  redis.call('DEL', blended)
end
local repeated = redis.call('HGET', blended, '#' .. request)
if repeated then
  return {'ok', repeated}
end
local owed, shared, left = {}, {}, tonumber(size)
for i, one in ipairs(weights) do
  if redis.call('HEXISTS', generators, one.generator) == 0 then
    return {'not-found', 'there is no generator ' .. one.generator}
  end
  owed[i] = tonumber(redis.call('HGET', blended, one.generator) or 0) + one.weight * size
  shared[i] = math.max(0, math.floor(owed[i]))
  left = left - shared[i]
end

-- One more for the largest remainder, or one less for the smallest; the first of equal ones.
while left ~= 0 do
  local step, chosen = left > 0 and 1 or -1, nil
  for i in ipairs(weights) do
    if (step == 1 or shared[i] > 0)
      and (not chosen or step * (owed[i] - shared[i]) > step * (owed[chosen] - shared[chosen])) then
      chosen = i
    end
  end
  shared[chosen], left = shared[chosen] + step, left - step
end

local fields = {'instance', instance}
for i, one in ipairs(weights) do
  fields[#fields + 1], fields[#fields + 2] = one.generator, string.format('%.17g', owed[i] - shared[i])
  shared[i] = string.format('%.0f', shared[i])
end
local answer = table.concat(shared, ' ')
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
