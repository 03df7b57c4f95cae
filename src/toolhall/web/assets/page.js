"use strict";

// Passkeys, and the time that is left. Everything else on these pages works without this file.

const trouble = document.getElementById("trouble");

const tell = (message) => {
  trouble.textContent = message;
  trouble.hidden = false;
};

const ask = async ({ get, create }) => {
  if (get !== undefined) {
    const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(JSON.parse(get));
    return navigator.credentials.get({ publicKey });
  }
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(JSON.parse(create));
  return navigator.credentials.create({ publicKey });
};

for (const form of document.querySelectorAll("form.passkey")) {
  form.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!window.PublicKeyCredential?.parseRequestOptionsFromJSON) {
      tell("This browser cannot use passkeys here. Use a newer one, or a code.");
      return;
    }
    try {
      const credential = await ask(form.dataset);
      form.elements.credential.value = JSON.stringify(credential.toJSON());
      form.submit();
    } catch (error) {
      tell(`The passkey was not used: ${error.message}`);
    }
  });
}

for (const left of document.querySelectorAll("[data-left]")) {
  const end = Date.now() + Number(left.dataset.left) * 1000;
  const timer = setInterval(() => {
    const seconds = Math.max(0, Math.round((end - Date.now()) / 1000));
    const minutes = Math.floor(seconds / 60);
    left.textContent = seconds === 0 ? "none" : minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
    if (seconds === 0) clearInterval(timer);
  }, 1000);
}
