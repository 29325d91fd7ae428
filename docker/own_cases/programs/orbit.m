% Integrates an orbit; the first argument chooses what it meets.
what = argv(){1};
disp('orbit: initial state');
if strcmp(what, 'undefined')
  y = keplerr(0.3, 1);
elseif strcmp(what, 'shape')
  y = ones(3, 4) * ones(3, 4);
elseif strcmp(what, 'memory')
  y = zeros(60000, 60000);
elseif strcmp(what, 'error')
  error('orbit:energy', 'energy drift %g exceeds tolerance', 0.031);
end
disp('orbit: finished');
