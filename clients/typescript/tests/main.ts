/** The package's own tests, run by Node. */
import "./calls.js";
import "./rows.js";
import "./vectors.js";
import "./watching.js";
