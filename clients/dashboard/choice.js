// Controls: a labelled select, and a checkbox.

// A labelled select. Its options may change while it is open to the user: the choice stays while it is offered.
import { fill, h } from "./dom.js";

export class Choice {
  constructor(id, label, changed) {
    this.select = h("select", { id, onchange: changed });
    this.element = h("div", { class: "field choice" }, [h("label", { for: id }, label), this.select]);
    this.offered = "";
  }

  get value() {
    return this.select.value;
  }

  // options: pairs of value and text; first: the value that is chosen at the beginning.
  offer(options, first = options[0]?.[0]) {
    const offered = JSON.stringify(options);
    if (offered === this.offered) return;
    const chosen = this.offered && options.some(([value]) => value === this.value) ? this.value : first;
    this.offered = offered;
    fill(this.select, options.map(([value, text]) => h("option", { value }, text)));
    this.select.value = chosen;
  }
}

// A labelled checkbox.
export class Toggle {
  constructor(id, label, isOn, changed) {
    this.input = h("input", { id, type: "checkbox", checked: isOn, onchange: changed });
    this.element = h("label", { class: "toggle", for: id }, this.input, label);
  }

  get isOn() {
    return this.input.checked;
  }
}
