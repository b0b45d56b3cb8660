-- uses: prelude
-- keys: messages
-- args: place id token seconds max_attempts

-- Claims the sending of message `id` for `seconds`, as its next attempt. `place`: of whom it is for and what it tells; a
-- message of another id takes the place of the one before. Answers 'claimed' and the number of the attempt; 'waits' and
-- until when, where it is claimed by somebody or its next attempt is not due; or 'sent' or 'failed'. It has failed once
-- `max_attempts` attempts were begun and the last of them has not sent it.
local fields = {}
for field in ((redis.call('HGET', messages, place) or '') .. '\t'):gmatch('([^\t]*)\t') do
  fields[#fields + 1] = field
end
local attempts = 0
if fields[1] == id then
  if fields[2] ~= 'waits' then
    return {'ok', fields[2], ''}
  elseif tonumber(fields[4]) > now() then
    return {'ok', 'waits', fields[4]}
  end
  attempts = tonumber(fields[3])
end
local word = attempts < tonumber(max_attempts) and 'waits' or 'failed'
if word == 'waits' then
  attempts = attempts + 1
end
redis.call('HSET', messages, place,
  table.concat({id, word, attempts, string.format('%.3f', now() + seconds), token, fields[1] == id and fields[6] or ''}, '\t'))
return {'ok', word == 'waits' and 'claimed' or word, tostring(attempts)}
