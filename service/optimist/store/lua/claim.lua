-- uses: prelude units
-- keys: generators claims claimed_until counts
-- args: owner seconds wanted*(generator label)

-- Claims units for `seconds`; a generator of 'mixture' or 'model' stands for what is made of all. Answers for each
-- {token, deadline, 1 if another owner's claim had run out}, or nothing where another owner holds the claim. A deadline
-- further off than a claim can last means that the server's clock was set back: that claim has run out, too.
--
-- A token is "<instance>:<number>:<owner>". Its number alone is not enough: a Redis that has lost its last writes assigns
-- numbers again.

local known = {}
for _, label in ipairs(all_labels()) do
  known[label] = true
end

local function claim(g, label)
  if g ~= 'mixture' and g ~= 'model' and redis.call('HEXISTS', generators, g) == 0 then
    return {'not-found', 'there is no such generator'}
  elseif not known[label] then
    return {'not-found', 'there is no such metric'}
  end
  local unit = unit_of(g, label)
  local token, deadline = redis.call('HGET', claims, unit), redis.call('ZSCORE', claimed_until, unit)
  local is_own = token and token:sub(-#owner - 1) == ':' .. owner
  local left = token and tonumber(deadline) - now() or 0
  if not is_own and left > 0 and left <= tonumber(seconds) then
    return {'ok'}
  end
  local taken_over = token and not is_own and 1 or 0
  if not is_own then
    token = string.format('%s:%d:%s', instance, redis.call('HINCRBY', counts, 'claims', 1), owner)
  end
  deadline = string.format('%.6f', now() + seconds)
  redis.call('HSET', claims, unit, token)
  redis.call('ZADD', claimed_until, deadline, unit)
  return {'ok', token, deadline, taken_over}
end

local answer = {'ok'}
for i, unit in ipairs(wanted) do
  answer[1 + i] = claim(unit.generator, unit.label)
end
return answer
