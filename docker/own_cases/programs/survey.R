# Fits a model; the first argument chooses what it meets.
what <- commandArgs(trailingOnly = TRUE)[1]
cat("reading survey\n")
if (what == "vector") x <- matrix(0, 60000, 60000)
if (what == "package") library(lme4)
if (what == "stop") {
  fit <- function(d) stop("response variable 'yield' has missing values")
  fit(mtcars)
}
if (what == "object") print(mean(yields$north))
if (what == "grow") {
  kept <- list()
  for (i in 1:400) {
    kept[[i]] <- rnorm(500000)
    cat("chain", i, "of 400\n")
    flush(stdout())
  }
}
if (what == "warning") {
  warning("model did not converge for 2 of 40 sites")
  message("Error in site 17 was handled, continuing")
}
cat("finished\n")
