// The page of the HTTP API: Swagger UI on the service's own description. A classic script, as Swagger UI is one.
if (window.SwaggerUIBundle) {
  window.SwaggerUIBundle({ url: "openapi.json", dom_id: "#api", deepLinking: true, validatorUrl: null });
} else {
  document.getElementById("api").textContent =
    "This page needs the package fastapi-offline: pip install fastapi-offline. The description is at /openapi.json.";
}
