-- other keys: leaving
-- args: token seconds

-- Says for so long that somebody, by this token, is about to delete a reference, so that no new experiment uses it.
if not redis.call('SET', leaving, token, 'NX', 'EX', seconds) and redis.call('GET', leaving) ~= token then
  return {'conflict', 'somebody else is deleting this reference: try again in a minute'}
end
return {'ok'}
