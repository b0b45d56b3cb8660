-- uses: prelude
-- keys: decision
-- args: dropped

-- Removes the decision if it is `dropped`. Answers 1 if there is none now, 0 if there is another one.
if redis.call('GET', decision) == dropped then
  redis.call('DEL', decision)
  changed()
end
return {'ok', 1 - redis.call('EXISTS', decision)}
