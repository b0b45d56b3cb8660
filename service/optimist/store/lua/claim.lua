-- uses: prelude units
-- keys: generators claims counts
-- args: owner seconds wanted*(generator label)

-- Claims units for `seconds`; a generator of 'mixture' or 'routes' stands for what is made of all. Answers for each {token, deadline,
-- 1 if another owner's claim had run out}, or nothing where another owner holds the claim. A deadline further off than a
-- claim can last means that the server's clock was set back: that claim has run out, too.

local known = {}
for _, label in ipairs(all_labels()) do
  known[label] = true
end

local function claim(g, label)
  if g ~= 'mixture' and g ~= 'routes' and redis.call('HEXISTS', generators, g) == 0 then
    return {'not-found', 'there is no such generator'}
  elseif not known[label] then
    return {'not-found', 'there is no such metric'}
  end
  local unit = unit_of(g, label)
  local number, deadline, holder = (redis.call('HGET', claims, unit) or ''):match('^(%d+) (%S+) (.*)$')
  local left = holder and tonumber(deadline) - now() or 0
  if holder ~= owner and left > 0 and left <= tonumber(seconds) then
    return {'ok'}
  end
  if holder ~= owner then
    number = string.format('%d', redis.call('HINCRBY', counts, 'claims', 1))
  end
  deadline = string.format('%.6f', now() + seconds)
  redis.call('HSET', claims, unit, table.concat({number, deadline, owner}, ' '))
  return {'ok', token_of(number, owner), deadline, holder and holder ~= owner and 1 or 0}
end

local answer = {'ok'}
for i, unit in ipairs(wanted) do
  answer[1 + i] = claim(unit.generator, unit.label)
end
return answer
