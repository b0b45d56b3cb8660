-- ARGV: the decision to be dropped. Answers 1 if none stands now, 0 if another one does.
if redis.call('GET', decision) == ARGV[1] then
  redis.call('DEL', decision)
  changed()
end
return {'ok', 1 - redis.call('EXISTS', decision)}
