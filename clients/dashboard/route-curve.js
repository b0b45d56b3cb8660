// What routing gains over time (`RouteCurve` in the OpenAPI document).
import { Points } from "./points.js";

export class RouteCurve extends Points {
  constructor() {
    super(["told", "samples", "gains", "lower", "upper", "scores", "best", "best_scores"]);
  }
}
