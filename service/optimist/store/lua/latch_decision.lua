-- ARGV: payload. Answers 1 if this is the decision, 0 if another one was made first.
if redis.call('SETNX', decision, ARGV[1]) == 1 then
  changed()
end
return {'ok', redis.call('GET', decision) == ARGV[1] and 1 or 0}
