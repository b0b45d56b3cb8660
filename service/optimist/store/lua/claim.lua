-- uses: prelude
-- keys: generators claims counts
-- args: owner seconds ordinals*

-- The counter that numbers claims. After a retraction it is not the one that older versions count by, so that none of
-- them can claim a generator, and score what it would misread.
local counter = tonumber(redis.call('HGET', counts, 'claims')) and 'claims' or 'claimed'

-- Claims generators for `seconds`. Answers for each {token, deadline, 1 if another owner's claim had run out}, or
-- nothing where another owner holds the claim. A deadline further off than a claim can last means that the server's
-- clock was set back: that claim has run out, too.

local function claim(g)
  if redis.call('HEXISTS', generators, g) == 0 then
    return {'not-found', 'there is no such generator'}
  end
  local number, deadline, holder = (redis.call('HGET', claims, g) or ''):match('^(%d+) (%S+) (.*)$')
  local left = holder and tonumber(deadline) - now() or 0
  if holder ~= owner and left > 0 and left <= tonumber(seconds) then
    return {'ok'}
  end
  if holder ~= owner then
    number = string.format('%d', redis.call('HINCRBY', counts, counter, 1))
  end
  deadline = string.format('%.6f', now() + seconds)
  redis.call('HSET', claims, g, table.concat({number, deadline, owner}, ' '))
  return {'ok', token_of(number, owner), deadline, holder and holder ~= owner and 1 or 0}
end

local answer = {'ok'}
for i, g in ipairs(ordinals) do
  answer[1 + i] = claim(g)
end
return answer
